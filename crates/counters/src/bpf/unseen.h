// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Switches that were not traced.
#ifndef CT_UNSEEN_H
#define CT_UNSEEN_H

// When the task found running came to be so, if its switch was not traced: where the one before
// it stopped by the scheduler's own accounts, or where the found one arrived.
static __always_inline __u64 unseen_switch_at(struct ct_core *c, struct task_struct *found, __u64 now)
{
	struct task_struct *before = (struct task_struct *)c->task;
	struct ct_row *row = row_at(c, c->current);
	__u64 at = now;

	if (row && BPF_CORE_READ(before, tgid) == row->pid) {
		at = c->since_ns + (BPF_CORE_READ(before, se.sum_exec_runtime) - c->ran_in);
	} else if (found->pid) {
		__u64 clock = found->se.cfs_rq->rq->clock;

		at = now - (clock - found->sched_info.last_arrival);
	}
	if (at < c->since_ns)
		return c->since_ns;
	return at > now ? now : at;
}

// Some kernels hide switches of chosen tasks from tracing. Time must not pile up on the wrong one.
static __always_inline void notice_unseen_switch(struct ct_core *c, struct task_struct *found,
						 __u64 now)
{
	if (c->task == (__u64)found)
		return;
	c->unseen_switches++;
	// Counters have no history: what was counted since goes to the task found.
	account(c, 0, unseen_switch_at(c, found, now), READ_NEVER, 0);
	begin_stint(c, found);
}

#endif
