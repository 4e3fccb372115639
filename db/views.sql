-- The views that users query. Their columns are an interface; views.toml describes them.
-- Plain SQL for both DuckDB and PostgreSQL. A statement ends with a semicolon at the end of a line.

-- cell_sweep, task_sweep: the sweeps that a cell or a task is part of, sorted and joined by commas.
create view cell_sweep as
select cell, string_agg(distinct sweep, ', ' order by sweep) as sweep
from sweep_task
where cell is not null
group by cell;

create view task_sweep as
select task, string_agg(sweep, ', ' order by sweep) as sweep
from sweep_task
group by task;

-- bench: the cost of a step relative to the plain baseline, one row per bench, workload, batch size and method. The
-- steps of all methods of a bench are interleaved in one process. ratio and its 95 % interval are of CPU time
-- (device time on a GPU) without drawing the batch; ratio_whole_step includes it; ratio_wall is by the wall clock.
--   role           yardstick (the plain baseline), control (the same, measured a second time: its distance from 1 is
--                  noise) or method
--   trustworthy    false if the machine was too noisy or there were too few steps; doubt states which
--   newest         no later bench has a row of this variant on the same workload, batch size, device, threads, host,
--                  origin and protocol; a trustworthy bench precedes all others
create view bench as
select
    b.task, b.workload, b.n_train, b.batch_size, b.variant, b.role, b.method, b.guarantee_kind,
    b.engine, b.engine_used, b.params,
    b.physical_batch_size, b.parameters, b.device, b.threads, t.host,
    b.status, b.reason, b.message, b.trustworthy, b.doubt, b.steps,
    b.ratio, b.ratio_low, b.ratio_high, b.ratio_whole_step, b.ratio_wall,
    b.median_cpu_seconds, b.iqr_cpu_seconds, b.median_wall_seconds, b.iqr_wall_seconds,
    b.median_net_seconds, b.seconds_per_update,
    b.peak_memory_bytes, b.resting_memory_bytes, b.memory_ratio, b.clocks, b.phases, b.malloc,
    w.sweep,
    b.workload_version, b.method_version, t.finished, t.origin, t.protocol,
    row_number() over (
        partition by
            t.origin, t.protocol, b.workload, b.workload_version, b.n_train, b.batch_size, b.variant, b.method_version,
            b.device, b.threads, t.host
        order by case when b.status = 'done' and b.trustworthy then 0 else 1 end, t.finished desc nulls last, b.task
    ) = 1 as newest
from bench_result b
join task t on t.key = b.task
left join task_sweep w on w.task = t.key;

-- model_cost: one row per trained model, with its cost as ratios to the plain baseline:
--   step_overhead       time of a step relative to one of the baseline at this cell's batch size, with its 95 % interval,
--                       from a bench that interleaved the two (`bench_match`); null if no bench has timed it
--   example_overhead    step time divided by batch_size, relative to that of the baseline, at each cell's own batch size:
--                       a larger batch spreads the fixed cost of a step over more examples, and is cheaper
--   training_overhead   wall time of the whole training, all steps of all phases
--   overhead_by         which of the first two to read: 'bench', else 'per example', with ', other host' if the
--                       baseline ran only on other machines; null if there is neither
-- Except in a bench, the baseline is the median over all of its models of the same workload (name, version, n_train),
-- origin and protocol that ran on the same device with the same number of threads: on this host or, if there are none,
-- on any other, whose processor may differ. The ratios are null without a baseline.
create view model_cost as
with run as (
    select
        r.*, c.origin, c.protocol, c.workload, c.workload_version, c.n_train, c.method, c.role, c.batch_size, t.device,
        t.threads, t.host,
        r.step_seconds_median / nullif(c.batch_size, 0) as example_seconds,
        r.step_cpu_seconds_median / nullif(c.batch_size, 0) as example_cpu_seconds
    from model_run r
    join cell c on c.key = r.cell
    join task t on t.key = r.task
),
baseline as (
    select
        origin, protocol, workload, workload_version, n_train, device, threads, host, grouping(host) as of_any_host,
        percentile_cont(0.5) within group (order by example_seconds) as example_seconds,
        percentile_cont(0.5) within group (order by example_cpu_seconds) as example_cpu_seconds,
        percentile_cont(0.5) within group (order by train_seconds) as train_seconds,
        percentile_cont(0.5) within group (order by extra_memory_bytes) as extra_memory_bytes
    from run
    -- A tune's trials are settings of all kinds, and no baseline.
    where role = 'plain-baseline' and cell not in (select cell from trial_result where cell is not null)
    group by
        grouping sets (
            (origin, protocol, workload, workload_version, n_train, device, threads, host),
            (origin, protocol, workload, workload_version, n_train, device, threads)
        )
),
benched as (
    select
        m.cell, t.device, b.threads, b.ratio, b.ratio_low, b.ratio_high,
        row_number() over (
            partition by m.cell, t.device, b.threads order by b.finished desc nulls last, b.task, b.variant
        ) as place
    from bench_match m
    join bench b on b.task = m.task and b.variant = m.variant
    join task t on t.key = m.task
    where b.newest and b.status = 'done' and b.trustworthy
),
ratio as (
    select
        r.task, y.of_any_host, b.ratio as step_overhead, b.ratio_low as step_overhead_low, b.ratio_high as step_overhead_high,
        r.example_seconds / nullif(y.example_seconds, 0) as example_overhead,
        r.example_cpu_seconds / nullif(y.example_cpu_seconds, 0) as example_cpu_overhead,
        r.train_seconds / nullif(y.train_seconds, 0) as training_overhead,
        r.extra_memory_bytes / nullif(y.extra_memory_bytes, 0) as memory_overhead,
        row_number() over (partition by r.task order by y.of_any_host) as place
    from run r
    left join baseline y
        on y.origin = r.origin
        and y.protocol = r.protocol
        and y.workload = r.workload
        and y.workload_version = r.workload_version
        and y.n_train = r.n_train
        and y.device is not distinct from r.device
        and y.threads is not distinct from r.threads
        and (y.of_any_host = 1 or y.host is not distinct from r.host)
    left join benched b
        on b.cell = r.cell
        and b.device is not distinct from r.device
        and b.threads is not distinct from r.threads
        and b.place = 1
)
select
    r.task, r.cell, r.index, r.device, r.threads, r.phase, r.steps, r.batch_size,
    r.steps * cast(r.batch_size as double precision) / nullif(r.n_train, 0) as epochs,
    r.step_seconds_p25, r.step_seconds_median, r.step_seconds_p75,
    r.step_cpu_seconds_p25, r.step_cpu_seconds_median, r.step_cpu_seconds_p75,
    r.train_seconds, r.peak_memory_bytes, r.extra_memory_bytes,
    o.step_overhead, o.step_overhead_low, o.step_overhead_high, o.example_overhead, o.example_cpu_overhead,
    case
        when o.step_overhead is not null then 'bench'
        when o.example_overhead is not null then 'per example' || case o.of_any_host when 1 then ', other host' else '' end
    end as overhead_by,
    o.training_overhead, o.memory_overhead
from run r
join ratio o on o.task = r.task and o.place = 1;

-- runs: one row per trained model: parameters, accuracy, guarantee, cost, machine and time.
create view runs as
select
    r.task, r.cell, c.workload, c.method, c.label, c.params, c.epsilon_asked, c.n_train, c.seed, r.index,
    r.test_accuracy, r.test_loss, r.train_accuracy, r.train_loss, r.nonmember_accuracy, r.majority_accuracy,
    r.top10_accuracy, r.set_aside,
    r.guarantee_kind, r.epsilon, r.delta, r.adjacency, r.accountant, r.epsilon_rdp, r.epsilon_paper,
    r.steps, m.epochs, r.step_seconds_median as step_seconds, r.train_seconds, r.peak_memory_bytes, r.extra_memory_bytes,
    m.batch_size, m.step_overhead, m.example_overhead, m.example_cpu_overhead, m.overhead_by, m.training_overhead,
    m.memory_overhead, r.stats,
    t.host, t.device, t.threads, t.started, t.finished, t.wall_seconds, r.code_fingerprint, r.data_fingerprint,
    w.sweep,
    c.workload_version, c.method_version, c.canary, c.canaries, c.canary_version, c.origin, c.protocol
from model_run r
join cell c on c.key = r.cell
join task t on t.key = r.task
join model_cost m on m.task = r.task
left join task_sweep w on w.task = t.key;

-- newest_attack: among the attacks of one kind on one cell (other parameters are another kind) the one that the views
-- show: the newest version, then the most models. With accuracy and guarantee of exactly the models it attacked, so
-- that the numbers of a row belong together. Epsilon and delta are the highest among them.
-- Means are taken in the order of the models: a sum in another order may differ in the last bit.
create view newest_attack as
with finding as (
    select task, cell, attack, attack_params, attack_version, models from attack_result
    union all
    select task, cell, attack, attack_params, attack_version, models from audit_result
    union all
    select task, cell, attack, attack_params, attack_version, models from reconstruction_result
    union all
    select task, cell, attack, attack_params, attack_version, models from attribute_result
),
ranked as (
    -- Versions are compared by length first, so that 10 comes after 9.
    select
        task, cell, models,
        row_number() over (
            partition by cell, attack, cast(attack_params as varchar)
            order by length(attack_version) desc, attack_version desc, models desc, task
        ) as place
    from finding
)
select
    a.task,
    count(r.test_accuracy) as n,
    avg(r.test_accuracy order by r.index) as accuracy,
    stddev_samp(r.test_accuracy order by r.index) as accuracy_sd,
    max(r.majority_accuracy) as majority_accuracy,
    avg(r.train_accuracy order by r.index) as train_accuracy,
    avg(r.nonmember_accuracy order by r.index) as validation_accuracy,
    stddev_samp(r.nonmember_accuracy order by r.index) as validation_sd,
    max(r.guarantee_kind) as guarantee_kind,
    max(r.adjacency) as adjacency,
    max(r.accountant) as accountant,
    max(r.epsilon) as epsilon,
    max(r.epsilon_rdp) as epsilon_rdp,
    max(r.epsilon_paper) as epsilon_paper,
    max(r.delta) as delta,
    count(distinct r.code_fingerprint) > 1 as mixed_code,
    count(distinct r.data_fingerprint) > 1 as mixed_data,
    -- The highest ceiling over the models, with its loosest derivation; null if any model has none.
    case when count(r.ceiling_by) = count(*) then min(r.ceiling_by) end as ceiling_by,
    case when count(r.ceiling_by) = count(*) then max(r.ceiling_auc) end as ceiling_auc,
    case when count(r.ceiling_by) = count(*) then max(r.ceiling_tpr_at_10pct) end as ceiling_tpr_at_10pct,
    case when count(r.ceiling_by) = count(*) then max(r.ceiling_tpr_at_1pct) end as ceiling_tpr_at_1pct,
    case when count(r.ceiling_by) = count(*) then max(r.ceiling_tpr_at_0p1pct) end as ceiling_tpr_at_0p1pct,
    case when count(r.ceiling_by) = count(*) then max(r.ceiling_tpr_at_0p01pct) end as ceiling_tpr_at_0p01pct,
    case when count(r.ceiling_by) = count(*) then max(r.ceiling_gap) end as ceiling_gap,
    percentile_cont(0.5) within group (order by m.step_seconds_median) as step_seconds,
    percentile_cont(0.5) within group (order by m.step_overhead) as step_overhead,
    percentile_cont(0.5) within group (order by m.example_overhead) as example_overhead,
    percentile_cont(0.5) within group (order by m.example_cpu_overhead) as example_cpu_overhead,
    min(m.overhead_by) as overhead_by,
    percentile_cont(0.5) within group (order by m.training_overhead) as training_overhead,
    percentile_cont(0.5) within group (order by m.extra_memory_bytes) as extra_memory_bytes,
    percentile_cont(0.5) within group (order by m.memory_overhead) as memory_overhead,
    percentile_cont(0.5) within group (order by m.train_seconds) as train_seconds
from ranked a
left join model_run r on r.cell = a.cell and r.index < a.models
left join model_cost m on m.task = r.task
where a.place = 1
group by a.task;

-- tried: how many configurations were trained for a method at equal privacy: cells with a training that ended,
-- including failed ones, whose failure is known; seeds are not distinguished. The count can be too small (other stores,
-- deleted tasks), never too large. Forgotten cells count: to forget a result does not undo its trial.
--   levels           parameters besides epsilon that trade privacy for accuracy, as JSON
--   configurations   distinct settings of all chosen parameters
create view tried as
with cell_count as (
    select cell, count(*) as trainings, sum(case when status = 'failed' then 1 else 0 end) as failed
    from task
    where kind = 'train'
    group by cell
)
select
    c.origin, c.protocol, c.workload, c.workload_version, c.method, c.method_version, c.n_train, c.epsilon_asked,
    cast(c.levels as varchar) as levels,
    count(distinct c.configuration) as configurations, count(*) as cells,
    cast(sum(n.trainings) as bigint) as trainings, cast(sum(n.failed) as bigint) as failed,
    count(g.key) as forgotten
from cell c
join cell_count n on n.cell = c.key
left join forgotten_result g on g.key = c.key
where c.canary is null
group by
    c.origin, c.protocol, c.workload, c.workload_version, c.method, c.method_version, c.n_train, c.epsilon_asked,
    cast(c.levels as varchar);

-- search: one row per tune, workload, method and level: what a tune tried, and what it chose by accuracy on non-members.
-- Test accuracy is not part of it. The search is not priced: epsilon of a tuned row is that of its training alone.
--   trials, studies        the budget, the same for every method of a tune: trials of each study
--   score                  of the choice of the median study, which a run takes; score_low and score_high: the lowest and
--                          highest among the studies' choices, which shows the luck of the search
--   tried                  trials that were trained, failed ones too
create view search as
select
    t.name as tune, s.workload, s.method, s.epsilon_asked, cast(s.levels as varchar) as levels,
    s.trials, s.studies, n.tried, n.failed, s.score, s.score_low, s.score_high, s.majority, s.reference,
    s.validation_records, s.params, s.warnings, s.cell, s.seconds,
    s.n_train, s.tuned_at, s.workload_version, s.method_version, s.search, s.origin
from search_result s
join tune_result t on t.key = s.tune
left join (
    select search, count(cell) as tried, cast(sum(case when failed > 0 then 1 else 0 end) as bigint) as failed
    from trial_result
    group by search
) n on n.search = s.search;

-- trial: one row per configuration that a tune tried, with its accuracy on non-members.
--   stage    search, or confirm: among the best of its study, and trained with more models
--   score    mean over the models; one that diverged or failed counts as 0
--   chosen   by its study; taken: by the study with the median score, so by a run with the tune's recipe
create view trial as
select
    t.name as tune, s.workload, s.method, s.epsilon_asked, cast(s.levels as varchar) as levels,
    r.study, r.trial, r.cell, r.stage, r.score, r.scores, r.failed, r.chosen, r.taken, r.params, r.seconds, r.error,
    s.n_train, s.tuned_at, s.workload_version, s.method_version, s.search, s.origin
from trial_result r
join search_result s on s.search = r.search
join tune_result t on t.key = s.tune;

-- frontier: one row per cell and attack (an attack with other parameters is another attack).
-- If a cell was attacked several times, the row shows the attack's newest version and the task
-- with the most models. Accuracy, guarantee and cost are over exactly the models that this task attacked.
--   accuracy_low, _high   95 % t-interval of the mean over models; null for a single model; within 0 and 1
--   majority_accuracy     test accuracy of always predicting the most common class; null in results of 0.1
--   beats_majority        accuracy_low (accuracy itself for a single model) is above it
--   step_seconds, extra_memory_bytes, train_seconds and the overheads are medians over models; model_cost describes
--                         the overheads and overhead_by
--   role                  plain-baseline or private-baseline, which others are compared with; null for other methods
--   solved                the parameter that was solved for to meet epsilon_asked; null if none was
--   attack_defaults       whether attack_params are the attack's defaults; null in older tasks
--   tested                worst case too: canaries were scored in this cell or in one with the same workload, method and
--                         parameters; average case only: a defence without a guarantee has no such cell; else null
--   ceiling_*             the most that the guarantee allows any attack, for a fixed number of members; the highest over
--                         the models, null without a guarantee. ceiling_by: how it was derived
--   blind_auc, valid      the check that members and non-members are indistinguishable without a model;
--                         valid is null if it was not run
--   validation_accuracy   mean accuracy on the pool's non-members, by which selections are made.
--                         Test accuracy (accuracy) is only reported
--   configurations        settings trained here at this epsilon and these levels; tried_before: by the recipe
--   tuned                 both, as text; a tune's trials count once, whether they were trained here or elsewhere
--   study                 the study of the tune that chose the values; median_study: whether it is the one with the median
--                         validation_accuracy among the studies that were run with this seed, the lower one of two.
--                         accuracy_study_low, _high: the range of their test accuracies
--   chosen                no other configuration of this method at this epsilon and these levels has a higher
--                         validation_accuracy; true without an epsilon: all of those are shown. Of several studies of a
--                         tune only the median one competes
--   on_front              chosen, and no other chosen and valid row of this workload, attack, origin and protocol has at
--                         least the validation accuracy and leaks at most as much (auc), and is better in one of them;
--                         equal rows are both on the front. Rows not known to be valid are never on the front.
--                         Computed when collecting (`front_result`)
-- Epsilons of different guarantee_kind are not comparable: nothing here ranks by epsilon.
create view frontier as
with student (df, t975) as (
    values
        (1, 12.706204736175), (2, 4.302652729749), (3, 3.182446305284),
        (4, 2.776445105198), (5, 2.570581835636), (6, 2.446911851145),
        (7, 2.364624251593), (8, 2.306004135204), (9, 2.262157162798),
        (10, 2.228138851986), (11, 2.200985160092), (12, 2.178812829667),
        (13, 2.160368656463), (14, 2.144786687918), (15, 2.131449545560),
        (16, 2.119905299221), (17, 2.109815577833), (18, 2.100922040241),
        (19, 2.093024054408), (20, 2.085963447266), (21, 2.079613844728),
        (22, 2.073873067904), (23, 2.068657610419), (24, 2.063898561628),
        (25, 2.059538552753), (26, 2.055529438643), (27, 2.051830516480),
        (28, 2.048407141795), (29, 2.045229642133), (30, 2.042272456301)
),
blind_ranked as (
    select
        cell, auc, valid,
        row_number() over (
            partition by cell
            order by length(attack_version) desc, attack_version desc, models desc, task
        ) as place
    from attack_result
    where attack = 'blind'
),
proved as (
    select cell, max(epsilon) as epsilon_audited from audit_result group by cell
),
of_tune as (
    -- The configurations of a tune among those that `tried` counts: its trials, and the recipe it is compared with.
    -- By name: a tune that was repeated with more trials has them all.
    select
        c.origin, c.protocol, c.workload, c.workload_version, c.method, c.method_version, c.n_train, c.epsilon_asked,
        cast(c.levels as varchar) as levels, m.tuned_by, count(distinct c.configuration) as configurations
    from (
        select r.cell, 'tune:' || t.name as tuned_by
        from trial_result r
        join search_result s on s.search = r.search
        join tune_result t on t.key = s.tune
        union
        select p.cell, 'tune:' || t.name
        from sweep_task p
        join tune_result t on p.sweep = 'tune-' || t.name and t.origin = ''
    ) m
    join cell c on c.key = m.cell
    where c.canary is null and exists (select 1 from task k where k.cell = c.key and k.kind = 'train')
    group by
        c.origin, c.protocol, c.workload, c.workload_version, c.method, c.method_version, c.n_train, c.epsilon_asked,
        cast(c.levels as varchar), m.tuned_by
),
worst_case as (
    -- The cells whose canaries an attack or an audit has scored.
    select distinct
        c.origin, c.protocol, c.workload, c.workload_version, c.n_train, c.method, c.method_version,
        cast(c.params as varchar) as params
    from cell c
    where c.canary is not null and (
        exists (select 1 from attack_result a where a.cell = c.key and a.canary_auc is not null)
        or exists (select 1 from audit_result a where a.cell = c.key)
    )
),
attacked as (
    -- t: the factor of a standard error. Beyond 30 degrees of freedom Student's quantile is the normal one plus
    -- the first four terms of its Cornish-Fisher expansion (accurate to 3e-8).
    select
        o.*,
        case when o.n > 1 then
            coalesce(
                s.t975,
                1.959963984540054
                + 2.372271230298562 / (o.n - 1)
                + 2.8224986157396112 / power(o.n - 1, 2)
                + 2.555849679507722 / power(o.n - 1, 3)
                + 1.5895340533938225 / power(o.n - 1, 4)
            ) / sqrt(o.n)
        end as t
    from newest_attack o
    left join student s on s.df = o.n - 1
),
point as (
    select
        c.key as cell, c.workload, c.method, c.role, c.label, c.params, c.epsilon_asked, c.solved,
        o.guarantee_kind, o.adjacency, o.accountant, o.epsilon, o.epsilon_rdp, o.epsilon_paper,
        coalesce(o.delta, c.delta) as delta,
        a.attack, a.attack_params, a.attack_defaults, a.models,
        o.accuracy,
        -- An accuracy is at most 1; least() alone would turn a null into that.
        case when o.t is not null then greatest(0, o.accuracy - o.t * o.accuracy_sd) end as accuracy_low,
        case when o.t is not null then least(1, o.accuracy + o.t * o.accuracy_sd) end as accuracy_high,
        o.majority_accuracy,
        coalesce(o.accuracy - o.t * o.accuracy_sd, o.accuracy) > o.majority_accuracy + 1e-9 as beats_majority,
        o.train_accuracy, o.validation_accuracy,
        case when o.validation_sd is not null then greatest(0, o.validation_accuracy - o.t * o.validation_sd)
        end as validation_accuracy_low,
        case when o.validation_sd is not null then least(1, o.validation_accuracy + o.t * o.validation_sd)
        end as validation_accuracy_high,
        a.auc, a.auc_low, a.auc_high, a.auc_se, a.auc_pooled, a.auc_interval,
        a.balanced_accuracy, a.balanced_accuracy_low, a.balanced_accuracy_high, a.accuracy_oracle, a.advantage,
        a.tpr_at_10pct, a.tpr_at_10pct_low, a.tpr_at_10pct_high, a.tpr_at_10pct_reason,
        a.tpr_at_10pct_tied,
        a.tpr_at_1pct, a.tpr_at_1pct_low, a.tpr_at_1pct_high, a.tpr_at_1pct_reason,
        a.tpr_at_1pct_tied,
        a.tpr_at_0p1pct, a.tpr_at_0p1pct_low, a.tpr_at_0p1pct_high, a.tpr_at_0p1pct_reason,
        a.tpr_at_0p1pct_tied,
        a.tpr_at_0p01pct, a.tpr_at_0p01pct_low, a.tpr_at_0p01pct_high, a.tpr_at_0p01pct_reason,
        a.tpr_at_0p01pct_tied,
        a.n_members, a.n_nonmembers,
        a.ppv_at_1pct, a.ppv_at_1pct_low, a.ppv_at_1pct_high,
        a.agreement, a.agreement_chance, a.agreement_untrained,
        a.adaptive, a.record_tpr_p99, a.records_exposed, a.records_tested, a.chosen_attacks, a.note,
        c.canary, c.canaries, c.canary_version,
        case
            when w.method is not null then 'worst case too'
            when o.guarantee_kind in ('empirical', 'claimed-disputed') then 'average case only'
            when o.guarantee_kind = 'none' and c.role is distinct from 'plain-baseline' then 'average case only'
        end as tested,
        a.canary_auc, a.canary_auc_low, a.canary_auc_high,
        a.canary_tpr_at_10pct, a.canary_tpr_at_10pct_low, a.canary_tpr_at_10pct_high,
        a.canary_tpr_at_10pct_reason,
        a.canary_tpr_at_1pct, a.canary_tpr_at_1pct_low, a.canary_tpr_at_1pct_high,
        a.canary_tpr_at_1pct_reason,
        d.epsilon_audited,
        o.ceiling_by, o.ceiling_auc, o.ceiling_tpr_at_10pct, o.ceiling_tpr_at_1pct, o.ceiling_tpr_at_0p1pct,
        o.ceiling_tpr_at_0p01pct,
        o.step_seconds, o.step_overhead, o.example_overhead, o.example_cpu_overhead, o.overhead_by,
        o.extra_memory_bytes, o.memory_overhead, o.train_seconds, o.training_overhead,
        coalesce(k.configurations, 1) as configurations, c.tried_before, c.tuned_by, c.tuned_on, c.tuned_at,
        c.trials, c.studies, c.study, c.tune,
        case
            when c.tune is not null then
                c.trials || ' x ' || c.studies || case
                    -- Without its trials here, up to a configuration of each study is the tune's.
                    when k.configurations > coalesce(u.configurations, c.studies)
                        then ' + ' || (k.configurations - coalesce(u.configurations, c.studies)) || ' here'
                    else ''
                end
            when c.tuned_on = 'test' then 'by paper on test'
            when k.configurations > 1 and c.tried_before is not null
                then k.configurations || ' here + ' || c.tried_before || ' in the recipe'
            when k.configurations > 1 then k.configurations || ' here'
            when c.tried_before is not null then c.tried_before || ' in the recipe'
            else 'no'
        end as tuned,
        cast(c.levels as varchar) as levels, b.auc as blind_auc, b.valid, o.mixed_code, o.mixed_data,
        a.task as attack_task,
        i.sweep,
        c.n_train, c.seed, c.workload_version, c.method_version, a.attack_version, c.origin, c.protocol
    from attacked o
    join attack_result a on a.task = o.task
    join cell c on c.key = a.cell
    left join blind_ranked b on b.cell = a.cell and b.place = 1
    left join proved d on d.cell = a.cell
    left join cell_sweep i on i.cell = a.cell
    left join tried k
        on k.origin = c.origin
        and k.protocol = c.protocol
        and k.workload = c.workload
        and k.workload_version = c.workload_version
        and k.method = c.method
        and k.method_version = c.method_version
        and k.n_train = c.n_train
        and k.epsilon_asked is not distinct from c.epsilon_asked
        and k.levels = cast(c.levels as varchar)
    left join of_tune u
        on u.origin = c.origin
        and u.protocol = c.protocol
        and u.workload = c.workload
        and u.workload_version = c.workload_version
        and u.method = c.method
        and u.method_version = c.method_version
        and u.n_train = c.n_train
        and u.epsilon_asked is not distinct from c.epsilon_asked
        and u.levels = cast(c.levels as varchar)
        and u.tuned_by = c.tuned_by
    left join worst_case w
        on w.origin = c.origin
        and w.protocol = c.protocol
        and w.workload = c.workload
        and w.workload_version = c.workload_version
        and w.n_train = c.n_train
        and w.method = c.method
        and w.method_version = c.method_version
        and w.params = cast(c.params as varchar)
    where a.attack <> 'blind' and a.auc is not null  -- null: no non-members, or too few models
),
studied as (
    -- The studies of a tune that were run with one seed, by validation accuracy.
    select
        attack_task,
        min(accuracy) over alike as accuracy_study_low, max(accuracy) over alike as accuracy_study_high,
        count(*) over alike as studies_run,
        row_number() over (alike order by validation_accuracy nulls first, cell) as place
    from point
    where study is not null
    window alike as (
        partition by
            origin, protocol, workload, workload_version, n_train, canary, canaries, canary_version, attack,
            cast(attack_params as varchar), method, method_version, epsilon_asked, levels, tune, seed
    )
),
standing as (
    select
        p.*,
        case when s.studies_run > 1 then s.accuracy_study_low end as accuracy_study_low,
        case when s.studies_run > 1 then s.accuracy_study_high end as accuracy_study_high,
        -- The lower one of two in the middle, as in the tune's record.
        2 * s.place - 1 in (s.studies_run, s.studies_run - 1) as median_study
    from point p
    left join studied s on s.attack_task = p.attack_task
),
candidate as (
    select
        p.*,
        coalesce(p.median_study, true) and (
            p.epsilon_asked is null
            or p.validation_accuracy is null
            or p.validation_accuracy >= max(
                case when coalesce(p.median_study, true) then p.validation_accuracy end
            ) over (
                partition by
                    p.origin, p.protocol, p.workload, p.workload_version, p.n_train, p.canary, p.canaries,
                    p.canary_version, p.attack, cast(p.attack_params as varchar), p.method, p.method_version,
                    p.epsilon_asked, p.levels
            )
        ) as chosen
    from standing p
)
select
    p.*,
    f.task is not null as on_front
from candidate p
left join front_result f on f.task = p.attack_task;

-- comparison: one row per axis and pair of cells of a workload: the paired difference, cell minus other, over models with
-- the same members. Chosen and valid cells are compared.
--   p_holm       after Holm's correction over all pairs of this axis; significant below 0.05
--   detectable   the smallest difference that this many models detect with a power of 80 %
--   shown        one of the two is the best cell by accuracy on non-members, or the private baseline
create view comparison as
with mean as (
    select cell, avg(nonmember_accuracy order by index) as validation_accuracy from model_run group by cell
),
member as (
    select cell from comparison_result union select other from comparison_result
),
ranked as (
    select
        m.cell,
        row_number() over (
            partition by
                c.origin, c.protocol, c.workload, c.workload_version, c.n_train, c.seed, c.canary, c.canaries,
                c.canary_version
            order by a.validation_accuracy desc nulls last, m.cell
        ) as place
    from member m
    join cell c on c.key = m.cell
    join mean a on a.cell = m.cell
)
select
    r.axis, c.workload, c.method, c.label, r.cell, o.method as other_method, o.label as other_label, r.other,
    r.attack, r.models, r.difference, r.low, r.high, r.se, r.p, r.p_holm, r.pairs, r.effect_size, r.detectable,
    r.reason, r.accuracy_test_se,
    f.place = 1 or g.place = 1 or 'private-baseline' in (coalesce(c.role, ''), coalesce(o.role, '')) as shown,
    (
        select string_agg(distinct s.sweep, ', ' order by s.sweep)
        from sweep_task s
        join sweep_task e on e.sweep = s.sweep
        where s.cell = r.cell and e.cell = r.other
    ) as sweep,
    c.n_train, c.seed, c.workload_version, c.canary, c.canaries, c.canary_version, c.origin, c.protocol
from comparison_result r
join cell c on c.key = r.cell
join cell o on o.key = r.other
join ranked f on f.cell = r.cell
join ranked g on g.cell = r.other;

-- audit: one row per audit of a cell: the lower bound on epsilon from its canaries, beside the computed epsilon and the
-- paper's. If a cell was audited several times in the same way, the newest version with the most models.
--   epsilon_audited   a lower bound with that confidence; a small one is no evidence of privacy
--   alarm             the lower bound exceeds epsilon_priced
--   meaning           of the bound: a guarantee put to the test, or an effective epsilon
create view audit as
select
    c.key as cell, c.workload, c.method, c.label, c.params, c.epsilon_asked,
    p.guarantee_kind, p.adjacency, p.accountant, p.accuracy,
    a.attack, a.attack_params, a.models, c.canary, a.canaries, a.threat, a.copies,
    a.trials, a.guesses, a.correct,
    a.epsilon as epsilon_audited, a.confidence, a.delta,
    a.epsilon_priced, a.epsilon_paper, a.alarm, a.message,
    case
        when a.epsilon_priced is null then 'effective epsilon at these canaries'
        else 'the guarantee put to the test'
    end as meaning,
    i.sweep,
    c.n_train, c.seed, c.workload_version, c.method_version, a.attack_version, a.task as attack_task,
    c.origin, c.protocol
from newest_attack p
join audit_result a on a.task = p.task
join cell c on c.key = a.cell
left join cell_sweep i on i.cell = a.cell;

-- reconstruction: one row per gradient inversion of a cell: how well members' images were reconstructed from the
-- gradients that single steps of the method share. If a cell was attacked several times in the same way, the
-- newest version with the most models. Errors are of pixels in [0, 1].
--   moment                  whose gradients: start the untrained model's, end the released one's
--   mse_median_normalised   in units of each colour plane's standard deviation over the pool
--   mse_median_mean_colour  of the originals' mean colours: the baseline, images without content
--   beats_mean_colour       the share of images that are closer to the original than its mean colour
--   success_rate            the share with a mean squared error below 0.001
create view reconstruction as
select
    c.key as cell, c.workload, c.method, c.label, c.params, c.epsilon_asked,
    p.guarantee_kind, p.adjacency, p.accountant, p.epsilon, p.delta, p.accuracy, p.validation_accuracy,
    a.attack, a.attack_params, a.moment, a.models, a.images,
    a.mse_median, a.mse_median_low, a.mse_median_high, a.mse_median_normalised, a.mse_median_mean_colour,
    a.ssim_mean, a.ssim_mean_low, a.ssim_mean_high, a.psnr_median,
    a.beats_mean_colour, a.beats_mean_colour_low, a.beats_mean_colour_high,
    a.success_rate, a.success_rate_low, a.success_rate_high, a.label_accuracy,
    i.sweep,
    c.n_train, c.seed, c.workload_version, c.method_version, a.attack_version, a.task as attack_task,
    c.origin, c.protocol
from newest_attack p
join reconstruction_result a on a.task = p.task
join cell c on c.key = a.cell
left join cell_sweep i on i.cell = a.cell;

-- attribute: one row per attribute inference on a cell: how often a sensitive column is inferred.
-- If a cell was attacked several times in the same way, the newest version with the most models.
--   advantage_*   accuracy minus that of an imputation without a model; on non-members it was learnt from the distribution
--   gap           the advantage on members minus that on non-members: leakage of members' own records
--   gap_ceiling   the highest gap that the guarantee allows: the largest TPR - FPR below the ceiling on any attack,
--                 the highest over the models; null without a guarantee
create view attribute as
select
    c.key as cell, c.workload, c.method, c.label, c.params, c.epsilon_asked,
    p.guarantee_kind, p.adjacency, p.accountant, p.epsilon, p.delta, p.accuracy,
    a.attack, a.attack_params, a.models, a.attribute, a.n_members, a.n_nonmembers,
    a.prior, a.accuracy_members, a.accuracy_nonmembers, a.imputation_members, a.imputation_nonmembers,
    a.advantage_members, a.advantage_nonmembers, a.gap, a.gap_low, a.gap_high, a.gap_interval,
    p.ceiling_gap as gap_ceiling, p.ceiling_by,
    i.sweep,
    c.n_train, c.seed, c.workload_version, c.method_version, a.attack_version, a.task as attack_task,
    c.origin, c.protocol
from newest_attack p
join attribute_result a on a.task = p.task
join cell c on c.key = a.cell
left join cell_sweep i on i.cell = a.cell;

-- overhead: the cost of training, one row per cell and kind of machine (device and threads; usually one).
-- All figures are medians over the cell's models. _p25 and _p75 are quartiles over one model's steps. model_cost
-- describes the overheads and overhead_by.
create view overhead as
with cost as (
    select
        cell, device, threads,
        count(*) as models,
        percentile_cont(0.5) within group (order by steps) as steps,
        percentile_cont(0.5) within group (order by epochs) as epochs,
        percentile_cont(0.5) within group (order by step_seconds_median) as step_seconds,
        percentile_cont(0.5) within group (order by step_seconds_p25) as step_seconds_p25,
        percentile_cont(0.5) within group (order by step_seconds_p75) as step_seconds_p75,
        percentile_cont(0.5) within group (order by step_overhead) as step_overhead,
        percentile_cont(0.5) within group (order by step_overhead_low) as step_overhead_low,
        percentile_cont(0.5) within group (order by step_overhead_high) as step_overhead_high,
        percentile_cont(0.5) within group (order by example_overhead) as example_overhead,
        percentile_cont(0.5) within group (order by example_cpu_overhead) as example_cpu_overhead,
        min(overhead_by) as overhead_by,
        percentile_cont(0.5) within group (order by training_overhead) as training_overhead,
        percentile_cont(0.5) within group (order by step_cpu_seconds_median) as step_cpu_seconds,
        percentile_cont(0.5) within group (order by step_cpu_seconds_p25) as step_cpu_seconds_p25,
        percentile_cont(0.5) within group (order by step_cpu_seconds_p75) as step_cpu_seconds_p75,
        percentile_cont(0.5) within group (order by peak_memory_bytes) as peak_memory_bytes,
        percentile_cont(0.5) within group (order by extra_memory_bytes) as extra_memory_bytes,
        percentile_cont(0.5) within group (order by memory_overhead) as memory_overhead,
        percentile_cont(0.5) within group (order by train_seconds) as train_seconds
    from model_cost
    group by cell, device, threads
)
select
    o.cell, c.workload, c.n_train, c.method, c.label, c.params, c.epsilon_asked,
    o.device, o.threads, o.models, o.steps, o.epochs, c.batch_size,
    o.step_seconds, o.step_seconds_p25, o.step_seconds_p75,
    o.step_cpu_seconds, o.step_cpu_seconds_p25, o.step_cpu_seconds_p75,
    o.step_overhead, o.step_overhead_low, o.step_overhead_high, o.example_overhead, o.example_cpu_overhead, o.overhead_by,
    o.train_seconds, o.training_overhead,
    o.peak_memory_bytes, o.extra_memory_bytes, o.memory_overhead, c.tried_before, c.tuned_by, c.tuned_on,
    i.sweep,
    c.origin, c.protocol
from cost o
join cell c on c.key = o.cell
left join cell_sweep i on i.cell = o.cell;

-- failures: every task that ended without a result, and every method that failed in a bench, with its reason.
create view failures as
select
    t.key as task, t.kind, t.reason, t.message, c.label, t.workload, t.method,
    c.epsilon_asked as epsilon, t.attack, t.index, t.cell, t.host, t.wall_seconds, t.finished,
    w.sweep, t.forgotten,
    t.origin, t.protocol
from task t
left join cell c on c.key = t.cell
left join task_sweep w on w.task = t.key
where t.status = 'failed'
union all
select
    t.key, t.kind, b.reason, b.message, b.variant, b.workload, b.method,
    null, null, null, null, t.host, t.wall_seconds, t.finished,
    w.sweep, t.forgotten,
    t.origin, t.protocol
from bench_result b
join task t on t.key = b.task
left join task_sweep w on w.task = t.key
where b.status = 'failed';

-- forgotten: what `privbench forget` took out of all other views but tried and failures, one row per record.
create view forgotten as
select
    g.key, g.kind, g.forgotten, g.why, coalesce(c.key, t.cell) as cell, coalesce(c.workload, d.workload, t.workload) as workload,
    coalesce(c.method, d.method) as method, coalesce(c.label, d.label) as label,
    coalesce(c.epsilon_asked, d.epsilon_asked) as epsilon_asked, t.attack,
    (select count(*) from task a where a.forgotten and (a.key = g.key or a.cell = g.key)) as tasks
from forgotten_result g
left join cell c on c.key = g.key
left join task t on t.key = g.key
left join cell d on d.key = t.cell;

-- reproduction: every published number beside ours, one row per number, in the paper's unit.
-- A cell is the paper's if workload, method and the identifying parameters agree; of several, the row shows the one
-- whose settings are nearest to the paper's (published_match.place), whatever its result.
--   ours            accuracy and train_accuracy: mean over the cell's models, ours_deviation their standard deviation;
--                   leakage: of the named attack, with the interval of frontier (with several parameter sets, the
--                   highest AUC); step_seconds: median; a method's own stats (rejection_rate): as accuracy
--   epsilon_recounted  epsilon of our ledger by the accountant of the paper, to be compared with epsilon_printed
--   difference      ours - value
--   status          not run       no trained cell matches; reason states it if none can
--                   not measured  the cell exists, the figure does not; reason states why
--                   within        differs by no more than the paper's standard deviation and half its last digit
--                   outside       differs by more
--                   compared      no printed standard deviation, or a time, which is of another machine
create view reproduction as
with utility as (
    select
        cell, count(*) as models,
        avg(test_accuracy order by index) as accuracy, stddev_samp(test_accuracy order by index) as accuracy_sd,
        avg(train_accuracy order by index) as train_accuracy, stddev_samp(train_accuracy order by index) as train_accuracy_sd,
        avg(top10_accuracy order by index) as top10_accuracy, stddev_samp(top10_accuracy order by index) as top10_accuracy_sd,
        percentile_cont(0.5) within group (order by step_seconds_median) as step_seconds,
        max(steps) as steps,
        max(guarantee_kind) as guarantee_kind, max(epsilon) as epsilon, max(accountant) as accountant,
        max(epsilon_rdp) as epsilon_rdp, max(epsilon_rdp_classic) as epsilon_rdp_classic,
        max(epsilon_paper) as epsilon_paper
    from model_run
    group by cell
),
reported as (
    -- The method's own stats, such as its rejection rate.
    select
        r.cell, named.metric,
        avg(cast(r.stats ->> named.metric as double precision) order by r.index) as stat,
        stddev_samp(cast(r.stats ->> named.metric as double precision) order by r.index) as stat_sd
    from model_run r
    cross join (select distinct metric from published) named
    group by r.cell, named.metric
),
blind as (
    select cell, min(case when valid then 1 else 0 end) = 1 as valid
    from attack_result
    where attack = 'blind'
    group by cell
),
attacked as (
    select cell, attack, auc, auc_low, auc_high, balanced_accuracy, tpr_at_0p01pct, tpr_at_0p01pct_low,
        tpr_at_0p01pct_high, tpr_at_0p01pct_reason, attack_task,
        cast(n_members as double precision) / nullif(n_nonmembers, 0) as odds
    from frontier
    where attack <> 'strongest'  -- of our attacks; papers that print the best of several mean the one below
    union all
    select cell, 'strongest', auc, auc_low, auc_high, null, null, null, null, null, attack_task, null
    from frontier
    where attack in ('population', 'reference', 'shadow')
),
leakage as (
    select
        a.*,
        -- Of the decision behind balanced_accuracy. It flags as many records as there are members, so that its FPR
        -- is (1 - tpr) odds.
        (2 * balanced_accuracy - 1 + odds) / (1 + odds) as tpr,
        row_number() over (partition by cell, attack order by auc desc nulls last, attack_task) as variant
    from attacked a
),
rebuilt as (
    -- Of several reconstructions the one of most images.
    select
        cell, attack, mse_median_normalised, ssim_mean, ssim_mean_low, ssim_mean_high,
        row_number() over (partition by cell, attack order by images desc, attack_task) as variant
    from reconstruction
),
beside as (
    select
        p.*, m.cell as our_cell, m.differences, c.n_train as our_n_train, c.label as our_label,
        u.models, u.guarantee_kind, u.epsilon as our_epsilon, u.accountant as our_accountant,
        case p.accountant
            when 'rdp_classic' then u.epsilon_rdp_classic
            when 'rdp' then u.epsilon_rdp
            when 'paper' then u.epsilon_paper
        end as epsilon_recounted,
        b.valid,
        u.steps * cast(c.batch_size as double precision) / nullif(c.n_train, 0) as epochs,
        l.cell is not null or i.cell is not null as attacked,
        l.tpr_at_0p01pct_reason,
        (select count(*) from published_match every_match where every_match.published = p.cell) as matches,
        case p.unit when '%' then 100.0 when 'ms' then 1000.0 else 1.0 end as scale,
        case p.metric
            when 'accuracy' then u.accuracy
            when 'train_accuracy' then u.train_accuracy
            when 'top10_accuracy' then u.top10_accuracy
            when 'step_seconds' then u.step_seconds
            when 'auc' then l.auc
            when 'attack_accuracy' then l.balanced_accuracy
            when 'attack_precision' then l.tpr / nullif(l.tpr + (1 - l.tpr) * l.odds, 0)
            when 'ssim_mean' then i.ssim_mean
            when 'mse_median' then i.mse_median_normalised
            when 'tpr_at_0p01pct' then l.tpr_at_0p01pct
            else s.stat
        end as measured,
        case p.metric
            when 'accuracy' then u.accuracy_sd
            when 'train_accuracy' then u.train_accuracy_sd
            when 'top10_accuracy' then u.top10_accuracy_sd
            else s.stat_sd
        end as sd,
        case p.metric
            when 'auc' then l.auc_low
            when 'tpr_at_0p01pct' then l.tpr_at_0p01pct_low
            when 'ssim_mean' then i.ssim_mean_low
        end as low,
        case p.metric
            when 'auc' then l.auc_high
            when 'tpr_at_0p01pct' then l.tpr_at_0p01pct_high
            when 'ssim_mean' then i.ssim_mean_high
        end as high
    from published p
    left join published_match m on m.published = p.cell and m.place = 1
    left join cell c on c.key = m.cell
    left join utility u on u.cell = m.cell
    left join blind b on b.cell = m.cell
    left join leakage l on l.cell = m.cell and l.attack = p.attack and l.variant = 1
    left join rebuilt i on i.cell = m.cell and i.attack = p.attack and i.variant = 1
    left join reported s on s.cell = m.cell and s.metric = p.metric
)
select
    source, table_name, cell as published, workload, printed_workload, method, label, params,
    metric, attack, unit, value, deviation, decimals, runs, n_train,
    our_cell as cell, our_label, our_n_train, epochs, models, matches,
    measured * scale as ours, sd * scale as ours_deviation, low * scale as ours_low, high * scale as ours_high,
    measured * scale - value as difference,
    case
        when our_cell is null then 'not run'
        when measured is null then 'not measured'
        when deviation is null or metric = 'step_seconds' then 'compared'
        when abs(measured * scale - value) <= deviation + 0.5 * power(10.0, -decimals) + 1e-9 then 'within'
        else 'outside'
    end as status,
    case
        when our_cell is null then unmatchable
        when measured is not null then null
        when attack is not null and not attacked then 'attack ' || attack || ' was not run on this cell'
        when metric = 'tpr_at_0p01pct' and tpr_at_0p01pct_reason is not null then tpr_at_0p01pct_reason
        when metric = 'top10_accuracy' then 'trained before this was measured, or with at most ten classes'
        when attack is not null then 'every model trains on the whole pool: there are no non-members'
        else 'the method did not report it'
    end as reason, unmatchable is null as runnable,
    guarantee_kind, our_epsilon as epsilon, our_accountant as accountant,
    epsilon as epsilon_printed, accountant as accountant_printed, epsilon_recounted,
    valid, differences, stated, protocol, note, printed, about, citation,
    key as published_key
from beside;

-- baseline: every trained cell of the private baseline on a published data set, beside the most accurate published line
-- on the same data set that is no less private; null in the columns of the line if there is none.
--   Compared are lines with a printed accuracy, an epsilon, and a number of training records that is at least three
--   quarters and at most four thirds of the cell's. A line is no less private if its epsilon is at most the cell's,
--   which is taken by the accountant of the paper if that is stated, else the price (no other is lower), with one per
--   cent for rounding in print; and its delta, if stated, is at most the cell's. Disputed epsilons do not count.
--   difference      accuracy of the cell minus that of the line
create view baseline as
with utility as (
    select
        cell, count(*) as models,
        avg(test_accuracy order by index) as accuracy, stddev_samp(test_accuracy order by index) as accuracy_sd,
        max(epsilon) as epsilon, max(accountant) as accountant, max(delta) as delta,
        max(epsilon_rdp) as epsilon_rdp, max(epsilon_rdp_classic) as epsilon_rdp_classic
    from model_run
    where test_accuracy is not null and epsilon is not null
    group by cell
),
trained as (
    select
        c.key as cell, c.workload, c.dataset, c.label, c.params, c.epsilon_asked, c.n_train,
        u.models, u.accuracy, u.accuracy_sd, u.epsilon, u.accountant, u.delta, u.epsilon_rdp, u.epsilon_rdp_classic,
        i.sweep, c.origin, c.protocol
    from cell c
    join utility u on u.cell = c.key
    left join cell_sweep i on i.cell = c.key
    where c.role = 'private-baseline' and c.dataset is not null and c.canary is null
),
beside as (
    select
        t.cell, p.key as published_key, p.label as published_label, p.printed_workload, p.method as published_method,
        p.table_name, p.printed, p.citation, p.value / 100 as published_accuracy, p.epsilon as epsilon_printed,
        p.accountant as accountant_printed, p.n_train as published_n_train,
        case p.accountant when 'rdp_classic' then t.epsilon_rdp_classic when 'rdp' then t.epsilon_rdp else t.epsilon end
            as epsilon_recounted,
        row_number() over (partition by t.cell order by p.value desc, p.key) as place
    from trained t
    join published p
        on p.dataset = t.dataset
        and p.metric = 'accuracy'
        and p.unit = '%'
        and p.accountant is distinct from 'paper'
        and p.n_train between 0.75 * t.n_train and t.n_train / 0.75
        and p.epsilon <= 1.01 * case p.accountant
            when 'rdp_classic' then t.epsilon_rdp_classic
            when 'rdp' then t.epsilon_rdp
            else t.epsilon
        end
        and (p.delta is null or p.delta <= t.delta * (1 + 1e-9))
)
select
    t.cell, t.workload, t.dataset, t.label, t.params, t.epsilon_asked, t.n_train, t.models, t.accuracy, t.accuracy_sd,
    t.epsilon, t.accountant, t.delta,
    b.published_accuracy, t.accuracy - b.published_accuracy as difference,
    b.published_label, b.published_method, b.printed_workload, b.table_name, b.printed, b.citation, b.published_n_train,
    b.epsilon_printed, b.accountant_printed, b.epsilon_recounted, b.published_key,
    t.sweep, t.origin, t.protocol
from trained t
left join beside b on b.cell = t.cell and b.place = 1;

-- conflicts: figures of an imported task that differ from ours of the same task, one row per figure. A task gives the
-- same bits only on the same kind of machine: a tiny difference comes from another machine, a large one needs an
-- explanation.
create view conflicts as
with figure as (
    select task, cell, 'accuracy' as figure, test_accuracy as value from model_run
    union all
    select task, cell, 'epsilon', epsilon from model_run
    union all
    select task, cell, 'auc', auc from attack_result
    union all
    select task, cell, 'epsilon_audited', epsilon from audit_result
    union all
    select task, cell, 'mse_median', mse_median from reconstruction_result
    union all
    select task, cell, 'gap', gap from attribute_result
)
select
    ours.key as task, theirs.origin, c.workload, c.label, ours.kind, ours.attack, mine.figure,
    mine.value as ours, other.value as theirs, other.value - mine.value as difference
from task theirs
join task ours on ours.key = substr(theirs.key, length(theirs.origin) + 2) -- their key is ORIGIN:KEY
join figure mine on mine.task = ours.key
join figure other on other.task = theirs.key and other.figure = mine.figure
join cell c on c.key = mine.cell
where theirs.origin <> '' and mine.value is distinct from other.value;
