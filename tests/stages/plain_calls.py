"""What tests ask of a model and no experiment does: all logits at masks, the log-probabilities of all tokens."""

import numpy as np
from negengine.engine.inference.batches import finished
from negengine.engine.inference.causal import LOGPROBS


def logits_at(model, ids, mask_position):
    """All logits at the mask, float32 [n, V]."""
    ((found,),) = finished(model.reduce_logits([[(ids, mask_position)]], lambda _, logits: logits))
    return found


def token_logprobs(model, ids):
    """The log-probability of each token but the first, given those before it: int32 [n, L] → float32 [n, L - 1]."""
    found = np.empty((len(ids), max(ids.shape[1] - 1, 0)), np.float32)
    row, place = (axis.reshape(-1) for axis in np.indices(found.shape))

    def put(question, at, logprobs):
        found.reshape(-1)[question] = logprobs[at]

    finished(model.following(list(ids[:, :-1]), (row, place, ids[:, 1:].reshape(-1)), [LOGPROBS], put))
    return found
