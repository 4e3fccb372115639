"""Every target, by kind."""

from tests.campaigns.fuzz import command_targets, data_targets, import_targets, store_targets, text_targets

KINDS = (text_targets, store_targets, data_targets, import_targets, command_targets)
TARGETS = tuple(target for kind in KINDS for target in kind.TARGETS)
