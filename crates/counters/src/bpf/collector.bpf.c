// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Sums what every process did on every core, slot by slot, inside the kernel, and hands user space
// one batch per core and slot.
//
//   sched_switch          accounts the task that leaves, starts the one that enters
//   task_rename           a process gets a new name
//   hrtimer_expire_exit   rides the kernel's own tick, so a task that never switches shows up
//                         within a tick; attached only where no timer of ours runs
//   slot timer            bpf_timer at each slot edge of a busy core; only with hardware counters
//
// Time is split at slot edges by arithmetic, so every slot of a core adds up to its length. What
// only grows while a task runs (counters, page faults) is read at the events and, when a stint
// crosses an edge, divided in proportion to time.
#include "kernel.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "shared.h"
#include "maps.h"
#include "clock.h"
#include "delta.h"
#include "rows.h"
#include "slot.h"
#include "unseen.h"
#include "waits.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

// Starts this core at its first event: `task` has run here since `start_ns`.
static __noinline int start_core(struct ct_core *c, struct task_struct *task)
{
	__u64 now = bpf_ktime_get_ns(), start = control.start_ns;
	struct ct_delta ignored = {};

	if (!start || now < start)
		return 0;
	// A core first seen long after the start was offline: nothing is known of that time.
	if (now - start > 4 * settings.slot_ns + 1000000000ULL)
		start += (now - start) / settings.slot_ns * settings.slot_ns;
	c->since_ns = start;
	open_slot(c, start + settings.slot_ns);
	begin_stint(c, task);
	read_counters(c, &ignored);
	return 0;
}

// This core's state, or 0 before the recording begins.
static __always_inline struct ct_core *started_core(struct task_struct *task)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct ct_core *c = bpf_map_lookup_elem(&cores, &cpu);

	if (!c)
		return 0;
	if (!c->since_ns)
		start_core(c, task);
	return c->since_ns ? c : 0;
}

static __always_inline void arm_timer(struct ct_core *c)
{
	__u32 cpu = c->batch.core;
	struct ct_timer *t;

	if (c->timer_armed)
		return;
	t = bpf_map_lookup_elem(&timers, &cpu);
	if (t && !bpf_timer_start(&t->timer, c->slot_end_ns, BPF_F_TIMER_ABS | BPF_F_TIMER_CPU_PIN))
		c->timer_armed = 1;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	struct ct_core *c = started_core(prev);
	__u64 clock, now;
	struct ct_row *row;

	if (!c)
		return 0;
	clock = run_queue_clock(next);
	now = time_of_switch(c, clock);
	notice_unseen_switch(c, prev, now);
	account(c, prev, now, prev->tgid == next->tgid ? READ_AT_EDGE : READ_ALWAYS, 0);
	row = row_at(c, c->current);
	if (row) {
		row->switches++;
		if (prev->nvcsw != c->voluntary_in)
			row->voluntary_switches++;
	}
	begin_stint(c, next);
	if (next->pid) {
		if (settings.follow_runq)
			enter_queue_wait(c, next, clock);
		if (settings.slot_timer)
			arm_timer(c);
	}
	return 0;
}

// A process renames itself (exec, prctl): the slot in which it does so has the new name. Renamed
// from elsewhere it has it from the next slot on.
SEC("tp_btf/task_rename")
int BPF_PROG(on_rename, struct task_struct *task, const char *name)
{
	struct ct_core *c = started_core(bpf_get_current_task_btf());
	struct ct_row *row = c ? row_at(c, c->current) : 0;

	if (row && row->pid == task->tgid && task->pid == task->tgid)
		bpf_probe_read_kernel_str(row->comm, sizeof(row->comm), name);
	return 0;
}

SEC("tp_btf/hrtimer_expire_exit")
int BPF_PROG(on_kernel_tick)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 now;
	struct ct_core *c;

	// An idle core is left alone: user space reads its open slot without waking it.
	if (task->pid == 0)
		return 0;
	c = started_core(task);
	if (!c)
		return 0;
	now = bpf_ktime_get_ns();
	if (now >= c->slot_end_ns) {
		notice_unseen_switch(c, task, now);
		account(c, task, now, READ_AT_EDGE, 0);
	}
	return 0;
}

static int on_slot_edge(void *map, __u32 *cpu, struct ct_timer *t)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct ct_core *c = started_core(task);
	__u64 now;

	if (!c)
		return 0;
	c->timer_armed = 0;
	if (task->pid == 0)
		return 0;
	now = bpf_ktime_get_ns();
	if (now >= c->slot_end_ns) {
		notice_unseen_switch(c, task, now);
		account(c, task, now, READ_AT_EDGE, 1);
	}
	arm_timer(c);
	return 0;
}

// Prepares the slot timers, one a call, from a system call of our own: bpf_timer_init allocates,
// which sched_switch must not do under the run-queue lock.
SEC("tp_btf/sys_enter")
int BPF_PROG(arm_timers)
{
	__u32 cpu = control.next_timer;
	struct ct_timer *t;

	if (bpf_get_current_pid_tgid() >> 32 != settings.own_pid)
		return 0;
	t = bpf_map_lookup_elem(&timers, &cpu);
	if (!t)
		return 0;
	control.next_timer = cpu + 1;
	bpf_timer_init(&t->timer, &timers, 1 /* CLOCK_MONOTONIC */);
	bpf_timer_set_callback(&t->timer, on_slot_edge);
	return 0;
}
