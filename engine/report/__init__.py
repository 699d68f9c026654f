"""From a run to the paper: reports, figures, sentences, citations."""
