from __future__ import annotations

import pytest

from residua.measure.information import summary
from residua.report import calibration
from residua.report.calibration import bars_missed


@pytest.mark.parametrize(
    ("truth", "bias", "coverage", "missed"),
    [
        (0.1, -0.019, 0.95, []),
        (0.1, -0.021, 0.95, ["bias"]),
        (1.0, -0.09, 0.95, []),  # 10 % of what there is to read
        (1.0, 0.11, 0.89, ["bias", "coverage"]),
        (0.1, 0.0, 0.99, ["coverage"]),  # too wide
        (0.0, 0.0, 1.0, []),  # an interval that ends at 0 always holds it
    ],
)
def test_bars_are_of_bias_and_of_coverage(truth, bias, coverage, missed):
    assert bars_missed({"truth": truth, "bias": bias, "coverage": coverage}) == missed


def test_few_samples_of_a_label_are_as_few_as_curves_warn_of():
    assert calibration.FEW_OF_A_LABEL == summary.FEW_OF_A_LABEL
