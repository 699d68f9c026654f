"""Shards that decided in different ways are put together, and the differences are told and recorded."""

import pytest
from negengine.engine.runs.choices import joined, told_batches, told_differences

FP32 = {"precision": "fp32", "reason": "mixed precision would be 0.98 times as fast", "speed_ratio": 1.1}
INT8 = {"precision": "mixed", "low_precision": "int8", "bound": 0.5, "speed_ratio": 2.0}


def test_equal_choices_are_the_whole_runs():
    shards = {"1/2": {"Cp": INT8, "Cn": FP32}, "2/2": {"Cp": INT8, "Cn": FP32}}
    assert joined(shards) == {"Cp": INT8, "Cn": FP32}
    assert told_differences(shards) == []


def test_the_choice_that_can_decide_again_is_taken_and_all_are_recorded():
    shards = {"1/3": {"Cp": FP32}, "2/3": {"Cp": INT8}, "3/3": {"Cp": {**INT8, "bound": 0.6}}}
    own = {shard: choices["Cp"] for shard, choices in shards.items()}
    assert joined(shards) == {"Cp": {**INT8, "shards": own}}


@pytest.mark.parametrize("other", [FP32, {**INT8, "low_precision": "fp16"}])
def test_different_precisions_are_told(other):
    word = "mixed (fp16)" if other is not FP32 else "fp32"
    (line,) = told_differences({"1/2": {"Cp": INT8}, "2/2": {"Cp": other}})
    assert line.startswith(f"Cp: the shards were decided in different precisions: 1/2 in mixed (int8); 2/2 in {word}.")
    assert "The decisions are exact in each." in line


def test_another_calibration_is_told():
    (line,) = told_differences({"1/2": {"Cp": INT8}, "2/2": {"Cp": {**INT8, "bound": 0.51}}})
    assert line.startswith("Cp: the shards were calibrated on different kinds of processors.")


def test_another_low_precision_model_is_told():
    (line,) = told_differences({str(i): {"Cp": {**INT8, "low_precision_sha256": str(i)}} for i in (1, 2)})
    assert line.startswith(
        "Cp: the shards were calibrated with different low-precision models. The decisions are exact;"
    )


def test_another_speed_decides_nothing():
    assert told_differences({"1/2": {"Cp": INT8}, "2/2": {"Cp": {**INT8, "speed_ratio": 2.1, "speedup": 1.9}}}) == []


def test_a_shard_without_a_pattern_does_not_count():
    assert joined({"1/2": {}, "2/2": {"Cp": INT8}}) == {"Cp": INT8}
    assert told_differences({"1/2": {}, "2/2": {"Cp": INT8}}) == []


def test_equal_batches_are_not_told():
    assert told_batches({}) == []
    assert told_batches({"1/2": None, "2/2": None}) == told_batches({"1/2": 64, "2/2": 64}) == []


def test_different_batches_are_told_in_the_order_of_the_shards():
    (line,) = told_batches({"1/4": 256, "2/4": None, "3/4": 512, "4/4": 256})
    parts = "1/4, 4/4 with 256 tokens; 2/4 with the usual ones; 3/4 with 512 tokens"
    assert line == f"the shards ran in different batches: {parts}. The last digits of log-probabilities can differ"


def test_the_members_of_each_precision_are_told():
    shards = {"1/3": {"Cp": INT8}, "2/3": {"Cp": FP32}, "3/3": {"Cp": INT8}}
    (line,) = told_differences(shards)
    assert "different precisions: 1/3, 3/3 in mixed (int8); 2/3 in fp32. " in line
    assert joined(shards)["Cp"]["precision"] == "mixed"


def test_where_no_shard_has_mixed_precision_the_first_choice_is_taken():
    shards = {"1/2": {"Cp": FP32}, "2/2": {"Cp": {**FP32, "reason": "another"}}}
    own = {shard: choices["Cp"] for shard, choices in shards.items()}
    assert joined(shards) == {"Cp": {**FP32, "shards": own}}
    assert told_differences(shards) == []
