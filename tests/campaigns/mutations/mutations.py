"""Rules of evidence (docs/rules.md) switched off, each by one change of the program that a test must catch.

A mutation is a text that occurs exactly once in its file, and what stands there instead. Code that moves or
is reworded takes its mutation along: test_mutations.py fails where a text is not found once.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutation:
    """One rule, broken in one place."""

    rule: str
    """Its name, a heading of docs/rules.md in small letters."""
    change: str
    """What the program then does wrong."""
    file: str
    text: str
    replacement: str
    test: str
    """The id of the one test that must fail."""


MUTATIONS = (
    Mutation(
        "low false-positive rates",
        "ROC curves on linear axes",
        "harness/report/frontier.py",
        'axes.set(xscale="log", yscale="log", xlim=(lowest, 1), ylim=(lowest, 1))',
        "axes.set(xlim=(lowest, 1), ylim=(lowest, 1))",
        "tests/harness/report/test_frontier.py"
        "::test_roc_axes_are_logarithmic_with_the_diagonal_and_no_unresolved_part",
    ),
    Mutation(
        "low false-positive rates",
        "the AUC is drawn where a TPR is resolved",
        "harness/report/leakage.py",
        "if rows and all(row[leakage.column] is not None for row in rows):",
        "if False:",
        "tests/harness/report/test_leakage.py::test_the_lowest_false_positive_rate_that_every_row_resolves",
    ),
    Mutation(
        "resolution guard",
        "a TPR from a single false positive",
        "harness/attacks/metrics.py",
        "n0, needed = curve.n_nonmembers, 10 * one_in",
        "n0, needed = curve.n_nonmembers, one_in",
        "tests/harness/attacks/test_metrics.py::test_resolution_guard_says_what_is_missing",
    ),
    Mutation(
        "resolution guard",
        "the same in what figures ask for",
        "harness/report/leakage.py",
        "RESOLUTION = 10\n",
        "RESOLUTION = 1\n",
        "tests/harness/report/test_leakage.py::test_what_each_rate_needs",
    ),
    Mutation(
        "resolution guard",
        "an axis that some cells do not resolve",
        "harness/report/leakage.py",
        "if rows and all(row[leakage.column] is not None for row in rows):",
        "if rows and any(row[leakage.column] is not None for row in rows):",
        "tests/harness/report/test_leakage.py::test_the_lowest_false_positive_rate_that_every_row_resolves",
    ),
    Mutation(
        "resolution guard",
        "ROC curves down to their first false positive",
        "harness/report/frontier.py",
        "strict=True) if f >= limit and t > 0]",
        "strict=True) if f > 0 and t > 0]",
        "tests/harness/report/test_frontier.py"
        "::test_roc_axes_are_logarithmic_with_the_diagonal_and_no_unresolved_part",
    ),
    Mutation(
        "per-record truth",
        "one score per record, the mean over targets, is kept",
        "harness/jobs/judge.py",
        '{"scores": scores, "members": members',
        '{"scores": scores.mean(axis=0), "members": members',
        "tests/harness/jobs/test_judge_keeps.py::test_the_score_of_every_record_under_every_target_is_kept",
    ),
    Mutation(
        "per-record truth",
        "signals without the truth about their records",
        "harness/jobs/train.py",
        'save({**signals, "members": mask',
        'save({**signals, "somebody": mask',
        "tests/harness/jobs/test_train.py"
        "::test_a_training_gives_what_its_contract_says_and_the_same_bits_again",
    ),
    Mutation(
        "worst case beside average",
        "canaries are part of the average",
        "harness/jobs/judge.py",
        "of_people = scores[:, :people], members[:, :people]",
        "of_people = scores, members",
        "tests/harness/jobs/test_judge_keeps.py::test_canaries_are_judged_apart_from_the_records_of_the_pool",
    ),
    Mutation(
        "adaptive shadows",
        "shadows are trained without the defence",
        "harness/plan/plan.py",
        "_undefended(cell, choice.shadows) or (None, Notes())",
        '_undefended(cell, choice.shadows or "sgd") or (None, Notes())',
        "tests/harness/plan/test_shadows.py::test_shadows_of_the_target_s_own_method_are_the_plain_attack",
    ),
    Mutation(
        "adaptive shadows",
        "rows do not say that shadows were trained without the defence",
        "harness/results/rows.py",
        '"adaptive": not shadows}',
        '"adaptive": True}',
        "tests/harness/plan/test_shadows.py::test_the_rows_tell_adaptive_from_not",
    ),
    Mutation(
        "exchangeable targets",
        "all models of a cell have the same members",
        "harness/jobs/train.py",
        "{cell.seed}/{task.index}",
        "{cell.seed}",
        "tests/harness/jobs/test_train.py"
        "::test_each_model_has_its_own_exact_number_of_members_whatever_the_method",
    ),
    Mutation(
        "exchangeable targets",
        "models of a cell differ in their number of members",
        "harness/jobs/train.py",
        "mask[order[: cell.n_train]] = True",
        "mask[order[: cell.n_train - task.index]] = True",
        "tests/harness/jobs/test_train.py"
        "::test_each_model_has_its_own_exact_number_of_members_whatever_the_method",
    ),
    Mutation(
        "exchangeable targets",
        "all models of a cell are trained with the same seed",
        "harness/jobs/run.py",
        'f"{self.name}/{name}"',
        'f"{name}"',
        "tests/harness/jobs/test_run.py"
        "::test_streams_are_independent_and_depend_on_the_task_and_their_name_alone",
    ),
    Mutation(
        "kinds do not mix",
        "the kind of guarantee is the method's own word",
        "harness/jobs/train.py",
        "    return guarantee.kind\n",
        "    return method.guarantee\n",
        "tests/harness/jobs/test_train.py::test_no_kind_of_guarantee_is_raised_above_the_price",
    ),
    Mutation(
        "kinds do not mix",
        "a price known after the fact is called differential privacy",
        "harness/accounting/pricing.py",
        'kind="claimed-disputed" if after else "approximate-dp"',
        'kind="approximate-dp"',
        "tests/harness/accounting/accountants/test_selective.py"
        "::test_a_run_that_acceptances_ended_is_priced_after_the_fact",
    ),
    Mutation(
        "kinds do not mix",
        "one marker for all kinds of guarantee",
        "harness/report/frontier.py",
        'shape = KINDS.get(row["guarantee_kind"], UNKNOWN_KIND)[1]',
        'shape = "o"',
        "tests/harness/report/test_frontier.py"
        "::test_hollow_for_one_model_and_crossed_out_where_the_blind_check_failed",
    ),
    Mutation(
        "the referee prices",
        "a price on which the accountants disagree",
        "harness/accounting/pricing.py",
        "    if pld > rdp * (1 + AGREEMENT) + width:\n",
        "    if False:\n",
        "tests/harness/accounting/test_pricing.py::test_no_price_is_given_on_which_the_accountants_disagree",
    ),
    Mutation(
        "the referee prices",
        "the ledger of a training is not held against its target",
        "harness/jobs/train.py",
        "    check(guarantee, bound(method, params))\n",
        "",
        "tests/harness/jobs/test_train.py::test_a_training_that_cost_more_than_it_was_to_cost_fails",
    ),
    Mutation(
        "the referee prices",
        "the paper's claim is the headline",
        "harness/accounting/pricing.py",
        "epsilon=epsilons[accountant],",
        'epsilon=epsilons.get("paper", epsilons[accountant]),',
        "tests/harness/cli/test_price.py::test_dpsur_has_three_prices",
    ),
    Mutation(
        "the referee prices",
        "what is let out without noise keeps a price",
        "harness/accounting/ledger.py",
        "    if isinstance(event, SelectiveReleaseDpEvent | ClaimedDpEvent) and event.unpaid:\n"
        "        return False\n",
        "",
        "tests/harness/accounting/accountants/test_selective.py"
        "::test_what_no_noise_covers_leaves_only_the_claim",
    ),
    Mutation(
        "the referee prices",
        "the second accountant's price is not stored",
        "harness/results/rows.py",
        '.get("rdp"),',
        '.get("pld"),',
        "tests/harness/results/test_collect.py::test_rows_hold_what_the_files_say",
    ),
    Mutation(
        "sampler and accountant",
        "batches of fixed size are priced as Poisson samples",
        "methods/training/sampling.py",
        "return (chance < self.rate).nonzero().flatten()",
        "return chance.argsort()[: round(self.rate * self.members)]",
        "tests/methods/training/test_sampling.py::test_poisson_batches_are_independent_draws_of_every_member",
    ),
    Mutation(
        "sampler and accountant",
        "shuffled batches are priced as Poisson samples",
        "methods/training/sampling.py",
        "class ShuffleSampler:",
        "class ShuffleSampler(PoissonSampler):",
        "tests/methods/training/test_sampling.py::test_batches_of_an_epoch_have_no_ledger",
    ),
    Mutation(
        "sampler and accountant",
        "the ledger holds fewer draws than there were",
        "methods/training/sampling.py",
        "return poisson_event(self.rate, noise_multiplier, self.draws)",
        "return poisson_event(self.rate, noise_multiplier, min(self.draws, 1))",
        "tests/methods/training/test_sampling.py::test_the_ledger_counts_the_draws",
    ),
    Mutation(
        "private steps",
        "the realised batch size divides",
        "methods/dp_sgd.py",
        "onto=gradient, share=1 / divisor)",
        "onto=gradient, share=1 / max(1, len(batch)))",
        "tests/methods/test_dp_sgd.py::test_the_expected_batch_divides_and_not_the_realised_one",
    ),
    Mutation(
        "private steps",
        "an empty batch takes no step",
        "methods/dp_sgd.py",
        "        # Noise comes first and the clipped gradients",
        "        if len(batch) == 0:\n            continue\n"
        "        # Noise comes first and the clipped gradients",
        "tests/methods/test_dp_sgd.py::test_an_empty_batch_takes_a_noised_step",
    ),
    Mutation(
        "private steps",
        "a non-finite gradient enters the sum",
        "methods/gradients/base.py",
        "    if not all_finite(norms):\n",
        "    if False:\n",
        "tests/methods/test_dp_sgd.py::test_a_non_finite_gradient_counts_as_zero_and_is_told",
    ),
    Mutation(
        "private steps",
        "non-finite gradients are not reported",
        "methods/gradients/base.py",
        "nonfinite = len(norms) - int(good.sum())",
        "nonfinite = 0",
        "tests/methods/test_dp_sgd.py::test_a_non_finite_gradient_counts_as_zero_and_is_told",
    ),
    Mutation(
        "private steps",
        "layers that mix examples are let through",
        "methods/gradients/layers.py",
        "    if problems:\n        raise SpecError(problems)\n",
        "",
        "tests/methods/test_dp_sgd.py::test_batch_normalisation_is_refused_by_name",
    ),
    Mutation(
        "private steps",
        "batch normalisation under another name is let through",
        "methods/gradients/layers.py",
        "    if isinstance(layer, _BatchNorm):\n",
        "    if type(layer) in (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d):\n",
        "tests/methods/test_dp_sgd.py::test_batch_normalisation_is_refused_whatever_it_is_called",
    ),
    Mutation(
        "private steps",
        "statistics of the data are not paid for",
        "methods/dpsgd_hf/dpsgd_hf.py",
        'if params.normalisation != "private" or isinstance(training, NonPrivateDpEvent):',
        "if True:",
        "tests/methods/dpsgd_hf/test_dpsgd_hf.py::test_statistics_are_in_the_ledger",
    ),
    Mutation(
        "no selection on test data",
        "the front goes by test accuracy",
        "db/views.sql",
        "            and other.validation_accuracy >= p.validation_accuracy\n"
        "            and other.auc <= p.auc\n"
        "            and (other.validation_accuracy > p.validation_accuracy or other.auc < p.auc)\n",
        "            and other.accuracy >= p.accuracy\n"
        "            and other.auc <= p.auc\n"
        "            and (other.accuracy > p.accuracy or other.auc < p.auc)\n",
        "tests/db/test_selection.py::test_the_front_goes_by_validation_accuracy_and_not_by_test_accuracy",
    ),
    Mutation(
        "no selection on test data",
        "configurations are chosen by test accuracy",
        "db/views.sql",
        "p.validation_accuracy >= max(p.validation_accuracy) over (",
        "p.accuracy >= max(p.accuracy) over (",
        "tests/db/test_selection.py"
        "::test_a_configuration_is_chosen_by_validation_accuracy_and_not_by_test_accuracy",
    ),
    Mutation(
        "no selection on test data",
        "public records that a method trained on are test records",
        "harness/jobs/train.py",
        "armed = replace(armed, test=without(armed.test, public))",
        "pass",
        "tests/harness/plan/test_public_records.py::test_who_was_given_away_judges_nothing",
    ),
    Mutation(
        "no selection on test data",
        "an average of the iterates is released unasked",
        "methods/training/averaging.py",
        '        default=0.0,\n        description="Decay of a moving average',
        '        default=0.9,\n        description="Decay of a moving average',
        "tests/methods/test_dp_sgd.py::test_without_noise_and_clipping_it_is_full_batch_sgd",
    ),
    Mutation(
        "counted tuning",
        "failed trainings do not count",
        "db/views.sql",
        "    where kind = 'train'\n    group by cell\n",
        "    where kind = 'train' and status = 'done'\n    group by cell\n",
        "tests/db/test_selection.py::test_configurations_are_counted_once_with_the_failed_ones",
    ),
    Mutation(
        "counted tuning",
        "a search counts though its values were replaced",
        "harness/plan/plan.py",
        "settings.items() if name not in given)",
        "settings.items())",
        "tests/harness/plan/test_plan.py::test_only_tuned_values_that_are_used_count_as_tried_before",
    ),
    Mutation(
        "counted tuning",
        "the noise that was solved for makes another configuration",
        "harness/plan/plan.py",
        "        uncounted.add(method.free)\n",
        "",
        "tests/harness/plan/test_plan.py"
        "::test_configurations_differ_by_what_is_chosen_and_not_by_level_or_engine",
    ),
    Mutation(
        "counted tuning",
        "values that a paper tuned on test data pass for untuned",
        "workloads/recipe.py",
        'if any(each.tuned_on == "test" for each in settings):',
        "if False:",
        "tests/workloads/test_recipe.py::test_a_value_that_a_paper_tuned_on_test_data_says_so",
    ),
    Mutation(
        "thresholds of others",
        "the best of twelve bounds is taken as if it were the only one",
        "harness/attacks/audit_one_run.py",
        "each = 1 - (1 - params.confidence) / len(tries)",
        "each = params.confidence",
        "tests/harness/attacks/test_audits.py::test_null_scores_audit_to_zero",
    ),
    Mutation(
        "thresholds of others",
        "models are judged by a threshold that they chose",
        "harness/attacks/audit_many_run.py",
        "_threshold(scores[::2], members[::2])",
        "_threshold(scores[1::2], members[1::2])",
        "tests/harness/attacks/test_audits.py"
        "::test_models_are_not_judged_by_a_threshold_that_only_they_could_have_chosen",
    ),
    Mutation(
        "thresholds of others",
        "balanced accuracy by a threshold chosen on the same scores",
        "harness/attacks/metrics.py",
        "others = fold != each",
        "others = fold == each",
        "tests/harness/attacks/test_metrics.py::test_thresholds_come_from_the_other_targets",
    ),
    Mutation(
        "blind check",
        "it runs only where it is asked for",
        "harness/plan/plan.py",
        "for choice in [*sweep.attacks, ALWAYS]:",
        "for choice in sweep.attacks:",
        "tests/harness/plan/test_plan.py::test_every_cell_gets_its_trainings_its_attacks_and_the_blind_check",
    ),
    Mutation(
        "blind check",
        "every split is called sound",
        "harness/attacks/metrics.py",
        "    if p < BLIND_LEVEL:\n",
        "    if False:\n",
        "tests/harness/attacks/test_metrics.py::test_blind_verdict_turns_at_one_in_a_thousand",
    ),
    Mutation(
        "blind check",
        "cells with a broken split are on the front of the view",
        "db/views.sql",
        "p.chosen and coalesce(p.valid, false) and",
        "p.chosen and",
        "tests/db/test_selection.py"
        "::test_a_cell_that_is_not_known_to_be_valid_is_on_no_front_and_beats_nobody",
    ),
    Mutation(
        "blind check",
        "cells with a broken split beat others",
        "db/views.sql",
        "        where other.valid\n            and other.chosen\n",
        "        where other.chosen\n",
        "tests/db/test_selection.py"
        "::test_a_cell_that_is_not_known_to_be_valid_is_on_no_front_and_beats_nobody",
    ),
    Mutation(
        "blind check",
        "cells with a broken split are on the front of the figures",
        "harness/report/leakage.py",
        'if row["valid"] and ',
        "if ",
        "tests/harness/report/test_leakage.py"
        "::test_front_leaves_out_rows_that_are_invalid_unchecked_or_unresolved",
    ),
    Mutation(
        "alarm above the price",
        "no bound is above its price",
        "harness/jobs/judge.py",
        "above = priced is not None and found.epsilon > priced",
        "above = False",
        "tests/harness/attacks/test_audits.py::test_a_bound_above_the_price_is_an_alarm",
    ),
    Mutation(
        "alarm above the price",
        "a condition on a report hides alarms",
        "harness/report/reading.py",
        "audits=list(rows_of(store, AUDITS)),",
        "audits=[row for row in rows_of(store, AUDITS) if not where],",
        "tests/harness/report/test_reading.py::test_a_condition_hides_no_alarm",
    ),
    Mutation(
        "alarm above the price",
        "an alarm looks like any other audit",
        "harness/report/audit.py",
        'colour = ALARM if row["alarm"] else "#0072B2"',
        'colour = "#0072B2"',
        "tests/harness/report/test_audit.py::test_an_alarm_is_red",
    ),
    Mutation(
        "alarm above the price",
        "the summary of a sweep does not mention alarms",
        "harness/backends/status.py",
        'if (result.get("audit") or {}).get("alarm"):',
        "if False:",
        "tests/harness/backends/test_status.py::test_an_alarm_is_in_the_summary_of_a_sweep",
    ),
    Mutation(
        "timing",
        "the first steps count",
        "harness/jobs/train.py",
        "kept = slice(warm_up(len(series.wall)), None)",
        "kept = slice(None)",
        "tests/harness/jobs/test_train.py::test_a_summary_leaves_the_warm_up_out_of_the_quantiles_only",
    ),
    Mutation(
        "timing",
        "the mean step instead of the median",
        "harness/jobs/timing.py",
        '"ratio": float(np.median(above) / np.median(below)),',
        '"ratio": float(np.mean(above) / np.mean(below)),',
        "tests/harness/jobs/test_bench.py"
        "::test_figures_are_medians_and_middle_halves_which_a_few_slow_steps_do_not_move",
    ),
    Mutation(
        "timing",
        "the whole range instead of the middle half",
        "harness/jobs/timing.py",
        "np.quantile(self.whole(each), [0.25, 0.5, 0.75])",
        "np.quantile(self.whole(each), [0.0, 0.5, 1.0])",
        "tests/harness/jobs/test_bench.py"
        "::test_figures_are_medians_and_middle_halves_which_a_few_slow_steps_do_not_move",
    ),
    Mutation(
        "timing",
        "a handful of steps is enough",
        "harness/jobs/timing.py",
        "LEAST_STEPS = 50\n",
        "LEAST_STEPS = 5\n",
        "tests/harness/jobs/test_bench.py::test_a_noisy_machine_is_recognised",
    ),
    Mutation(
        "timing",
        "drawing a batch is part of the ratio",
        "harness/jobs/timing.py",
        "return self.whole(clock) - self.part(BATCH, clock)",
        "return self.whole(clock)",
        "tests/harness/jobs/test_bench.py::test_the_ratio_leaves_the_batch_out_and_the_whole_step_does_not",
    ),
    Mutation(
        "timing",
        "a rejected step counts as an update",
        "harness/jobs/timing.py",
        "made = math.fsum(lap.accepted or 0.0 for lap in self.laps)",
        "made = math.fsum(lap.accepted is not None for lap in self.laps)",
        "tests/harness/jobs/test_bench.py::test_time_of_an_update_counts_rejected_steps",
    ),
    Mutation(
        "failures stay visible",
        "diverged trainings are no rows",
        "db/views.sql",
        "where t.status = 'failed'\nunion all",
        "where t.status = 'failed' and t.reason <> 'diverged'\nunion all",
        "tests/harness/results/test_collect.py::test_a_failure_is_a_row",
    ),
    Mutation(
        "failures stay visible",
        "a condition on a report hides failures",
        "harness/report/reading.py",
        'failures=sorted(rows_of(store, "select * from failures"), key=_order),',
        'failures=sorted(rows_of(store, select("failures", where)), key=_order),',
        "tests/harness/report/test_reading.py"
        "::test_a_condition_limits_both_views_but_never_hides_failures_or_moves_colours",
    ),
    Mutation(
        "failures stay visible",
        "the figure does not mention failures",
        "harness/report/frontier.py",
        "for entry in failed[:FAILED]:",
        "for entry in failed[:0]:",
        "tests/harness/report/test_frontier.py::test_one_row_of_panels_for_each_workload",
    ),
    Mutation(
        "failures stay visible",
        "a failure without its reason",
        "harness/jobs/loop.py",
        '        reason = "diverged"\n',
        '        reason = "error"\n',
        "tests/harness/jobs/test_loop.py::test_a_failure_is_a_row_with_its_reason_and_the_worker_lives_on",
    ),
    Mutation(
        "bands over models",
        "figures of models that the attack did not look at",
        "db/views.sql",
        "r.cell = a.cell and r.index < a.models",
        "r.cell = a.cell",
        "tests/db/test_views.py::test_a_row_is_of_the_attack_with_the_most_models_and_of_those_models",
    ),
    Mutation(
        "bands over models",
        "a single model is drawn like eight",
        "harness/report/frontier.py",
        '"mfc": "white" if row["models"] == 1 else colour,',
        '"mfc": colour,',
        "tests/harness/report/test_frontier.py"
        "::test_hollow_for_one_model_and_crossed_out_where_the_blind_check_failed",
    ),
    Mutation(
        "published numbers",
        "the difference is not shown",
        "db/views.sql",
        "    measured * scale - value as difference,",
        "    cast(null as double precision) as difference,",
        "tests/harness/results/test_matching.py::test_a_mean_within_the_deviation_of_the_paper",
    ),
    Mutation(
        "published numbers",
        "the best of our cells stands beside the paper's",
        "harness/results/matching.py",
        "sorted(mine, key=lambda cell: _distance(each, cell))",
        'sorted(mine, key=lambda cell: -cell["models"])',
        "tests/harness/results/test_matching.py"
        "::test_the_nearest_settings_are_shown_not_the_most_models_nor_the_best_result",
    ),
    Mutation(
        "published numbers",
        "what the paper does not state is passed over",
        "harness/results/matching.py",
        'texts.append("not in the paper, ours: " + ", ".join(own))',
        "pass",
        "tests/harness/results/test_matching.py::test_another_number_of_members_is_told",
    ),
    Mutation(
        "fair costs",
        "trainings with other threads are compared",
        "db/views.sql",
        "and y.threads is not distinct from r.threads",
        "",
        "tests/db/test_views.py::test_what_does_not_compare_has_no_ratio",
    ),
    Mutation(
        "fair costs",
        "methods are timed one after another",
        "harness/jobs/interleaving.py",
        "places = order.sample(range(len(players)), len(players))",
        "places = list(range(len(players)))",
        "tests/harness/jobs/test_bench.py"
        "::test_everyone_steps_once_a_round_in_changing_order_on_the_same_draws",
    ),
    Mutation(
        "fair costs",
        "the cost of a training is that of one phase",
        "harness/results/rows.py",
        '"train_seconds": sum(seconds.values()),',
        '"train_seconds": seconds[longest],',
        "tests/harness/results/test_collect.py::test_rows_hold_what_the_files_say",
    ),
    Mutation(
        "fingerprints",
        "a task runs on another version than it was planned for",
        "harness/jobs/train.py",
        "    if asked.version != installed:\n",
        "    if False:\n",
        "tests/harness/jobs/test_train.py::test_a_task_runs_on_the_version_it_was_planned_for",
    ),
    Mutation(
        "fingerprints",
        "results of two versions share a key",
        "harness/spec.py",
        'return {"name": self.name, "version": self.version}',
        'return {"name": self.name, "version": ""}',
        "tests/harness/test_spec.py::test_every_part_of_a_task_changes_its_key",
    ),
)
