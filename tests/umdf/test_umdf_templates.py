"""Template ids and flag bits come from the schemas."""

import numpy as np
import pytest

from pregao.errors import SchemaError
from pregao.sbe.model import SetType
from pregao.schemas import bundled, bundled_versions
from pregao.umdf import templates

VERSIONS = [version.number for version in bundled_versions("umdf")]


@pytest.mark.parametrize("version", VERSIONS)
def test_every_template_of_every_version_is_known_by_its_name(version):
    for message in bundled("umdf", version).messages:
        assert templates.template_id(message.name) == message.id


def test_an_unknown_name_is_an_error():
    with pytest.raises(SchemaError, match="has a message Order_MBO_99"):
        templates.template_id("Order_MBO_99")


@pytest.mark.parametrize("version", VERSIONS)
def test_the_bit_for_implied_orders_is_what_each_version_says(version):
    """000 §18: the bit is LastImpliedMsg up to version 9."""
    found = bundled("umdf", version).types["MatchEventIndicator"]
    assert isinstance(found, SetType)
    expected = sum(1 << choice.bit for choice in found.choices if choice.name == "Implied")
    assert templates.implied_mask(version) == expected
    assert templates.implied_masks(np.array([version])).tolist() == [expected]


def test_flags_mean_the_same_in_every_version():
    for version in VERSIONS:
        types = bundled("umdf", version).types
        flags = {choice.name: 1 << choice.bit for choice in types["MatchEventIndicator"].choices}
        assert flags["EndOfEvent"] == templates.END_OF_EVENT
        assert flags["RecoveryMsg"] == templates.RECOVERY
        conditions = {choice.name: 1 << choice.bit for choice in types["TradeCondition"].choices}
        assert conditions["OutOfSequence"] == templates.OUT_OF_SEQUENCE
