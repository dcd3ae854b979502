// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// How long a task waited for a processor before it got this one, and whether it came from another.
#ifndef CT_WAITS_H
#define CT_WAITS_H

static __always_inline struct ct_visit *visit_of(struct ct_core *c, __u32 tid)
{
	// Numbers are given out in order, so that threads of one time seldom share a place.
	return &c->visits[tid & (CT_VISITS - 1)];
}

// What the kernel had booked of the task's waits when it last ran. Asked of a task that was moved
// since it ran here, or that this core does not remember: part of its wait may have been booked
// before the move, and the core it left knows.
static __noinline __u64 booked_before(struct ct_core *c, struct task_struct *next, __u64 migrations)
{
	__u64 run_delay = next->sched_info.run_delay, booked = run_delay;
	struct ct_row *row = row_at(c, c->current);
	struct ct_task *t = bpf_task_storage_get(&tasks, next, 0, 0);
	__u32 tid = next->pid, core;
	struct ct_visit *visit;
	struct ct_core *last;

	if (!t) {
		struct ct_task fresh = { .migrations = migrations, .core = c->batch.core };

		if (!bpf_task_storage_get(&tasks, next, &fresh, BPF_LOCAL_STORAGE_GET_F_CREATE))
			c->storage_failures++;
		// One that began while we watched has never run elsewhere unseen.
		return next->start_time >= control.start_ns ? 0 : run_delay;
	}
	core = t->core;
	last = bpf_map_lookup_elem(&cores, &core);
	if (!last)
		return run_delay;
	// Nobody writes that entry meanwhile but for another task of the same place in the table.
	visit = visit_of(last, tid);
	if (visit->tid == tid && visit->run_delay <= run_delay)
		booked = visit->run_delay;
	else
		c->storage_failures++;
	if (row && core != c->batch.core)
		row->migrations++;
	t->migrations = migrations;
	t->core = c->batch.core;
	return booked;
}

// sched_switch fires just before the kernel books the wait that ends now (sched_info_arrive). Most
// tasks come back to the core they left: the storage of a task, which costs as much as all the rest
// here, is asked only after a move.
static __always_inline void enter_queue_wait(struct ct_core *c, struct task_struct *next,
					     __u64 clock)
{
	__u64 queued = next->sched_info.last_queued;
	__u64 migrations = next->se.nr_migrations;
	__u64 total = next->sched_info.run_delay;
	__u32 tid = next->pid;
	struct ct_visit *visit = visit_of(c, tid);
	struct ct_row *row;

	if (visit->tid != tid || visit->migrations != (__u32)migrations) {
		visit->run_delay = booked_before(c, next, migrations);
		visit->tid = tid;
		visit->migrations = migrations;
	}
	if (queued && clock > queued)
		total += clock - queued;
	row = row_at(c, c->current);
	if (row && total > visit->run_delay)
		row->runq_wait_ns += total - visit->run_delay;
	visit->run_delay = total;
}

#endif
