// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The time of a switch. Reading CLOCK_MONOTONIC costs a sixth of all that is done at one, and the
// scheduler has just read a clock of its own: the run queue's, which runs at the same pace to within
// what NTP may correct (500 ppm). So a slot is timed by the latter, and the distance between the two
// is measured anew when a slot ends: half a microsecond of a millisecond at the very most.
#ifndef CT_CLOCK_H
#define CT_CLOCK_H

// The clock of the run queue `task` is on; 0 where the kernel has no such path to it.
static __always_inline __u64 run_queue_clock(struct task_struct *task)
{
	if (!bpf_core_field_exists(task->se.cfs_rq))
		return 0;
	return task->se.cfs_rq->rq->clock;
}

static __always_inline __u64 time_of_switch(struct ct_core *c, __u64 clock)
{
	__u64 now = clock + c->clock_offset_ns;

	if (clock && now >= c->since_ns && now < c->slot_end_ns)
		return now;
	now = bpf_ktime_get_ns();
	c->clock_offset_ns = now - clock;
	return now > c->since_ns ? now : c->since_ns;
}

#endif
