// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Sums what every process did on every core, slot by slot, inside the kernel, and hands user space
// one batch per core and slot.
//
//   sched_switch          accounts the task that leaves, starts the one that enters
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

char LICENSE[] SEC("license") = "Dual MIT/GPL";

const volatile struct ct_settings settings = {};
volatile struct ct_control control = {};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); // one a possible core, set at load
	__type(key, __u32);
	__type(value, struct ct_core);
} cores SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096); // set at load
} batches SEC(".maps");

struct ct_task {
	__u64 run_delay_seen;
	__u32 core;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct ct_task);
} tasks SEC(".maps");

struct ct_timer {
	struct bpf_timer timer;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); // one a possible core, set at load
	__type(key, __u32);
	__type(value, struct ct_timer);
} timers SEC(".maps");

#define COUNTER_MAP(name)                                 \
	struct {                                              \
		__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);      \
		__uint(max_entries, 1);                           \
		__type(key, __u32);                               \
		__type(value, __u32);                             \
	} name SEC(".maps")
COUNTER_MAP(counter_0);
COUNTER_MAP(counter_1);
COUNTER_MAP(counter_2);

struct ct_delta {
	__u64 page_faults;
	struct ct_count counters[CT_COUNTERS];
};

// amount * part / whole for part <= whole, without a 128-bit product.
static __always_inline __u64 share(__u64 amount, __u64 part, __u64 whole)
{
	__u64 ratio = whole ? (part << 20) / whole : 0;
	return (amount >> 20) * ratio + (((amount & 0xfffff) * ratio) >> 20);
}

static __always_inline void share_count(struct ct_count *out, const struct ct_count *all,
					__u64 part, __u64 whole)
{
	out->value = share(all->value, part, whole);
	out->enabled = share(all->enabled, part, whole);
	out->running = share(all->running, part, whole);
}

static __always_inline void share_delta(struct ct_delta *out, const struct ct_delta *all,
					__u64 part, __u64 whole)
{
	out->page_faults = share(all->page_faults, part, whole);
	for (int i = 0; i < CT_COUNTERS; i++)
		if (settings.counters_open & (1U << i))
			share_count(&out->counters[i], &all->counters[i], part, whole);
}

static __always_inline void subtract(struct ct_delta *from, const struct ct_delta *part)
{
	from->page_faults -= part->page_faults;
	for (int i = 0; i < CT_COUNTERS; i++)
		if (settings.counters_open & (1U << i)) {
			from->counters[i].value -= part->counters[i].value;
			from->counters[i].enabled -= part->counters[i].enabled;
			from->counters[i].running -= part->counters[i].running;
		}
}

static __always_inline void add_delta(struct ct_row *row, const struct ct_delta *d)
{
	row->page_faults += d->page_faults;
	for (int i = 0; i < CT_COUNTERS; i++)
		if (settings.counters_open & (1U << i)) {
			row->counters[i].value += d->counters[i].value;
			row->counters[i].enabled += d->counters[i].enabled;
			row->counters[i].running += d->counters[i].running;
		}
}

static __always_inline void advance_counter(struct ct_core *c, int i, struct ct_delta *d, long err,
					    const struct bpf_perf_event_value *now)
{
	struct ct_count *in = &c->counters_in[i];
	// An event that cannot be read (its core was just plugged in) leaves no delta: absent, not 0.
	if (err)
		return;
	d->counters[i].value = now->counter - in->value;
	d->counters[i].enabled = now->enabled - in->enabled;
	d->counters[i].running = now->running - in->running;
	in->value = now->counter;
	in->enabled = now->enabled;
	in->running = now->running;
}

static __always_inline void read_counters(struct ct_core *c, struct ct_delta *d)
{
	struct bpf_perf_event_value v;
	long err;

	if (settings.counters_open & 1) {
		err = bpf_perf_event_read_value(&counter_0, BPF_F_CURRENT_CPU, &v, sizeof(v));
		advance_counter(c, 0, d, err, &v);
	}
	if (settings.counters_open & 2) {
		err = bpf_perf_event_read_value(&counter_1, BPF_F_CURRENT_CPU, &v, sizeof(v));
		advance_counter(c, 1, d, err, &v);
	}
	if (settings.counters_open & 4) {
		err = bpf_perf_event_read_value(&counter_2, BPF_F_CURRENT_CPU, &v, sizeof(v));
		advance_counter(c, 2, d, err, &v);
	}
}

static __always_inline __u64 cgroup_of(struct task_struct *leader)
{
	if (settings.cgroup_v1) {
		struct css_set *set = leader->cgroups;
		struct cgroup_subsys_state *css = 0;
		__u32 memory = bpf_core_enum_value(enum cgroup_subsys_id, memory_cgrp_id);

		bpf_core_read(&css, sizeof(css), &set->subsys[memory]);
		return BPF_CORE_READ(css, cgroup, kn, id);
	}
	return leader->cgroups->dfl_cgrp->kn->id;
}

static __always_inline void name_row(struct ct_row *row, struct task_struct *leader)
{
	*(__u64 *)&row->comm[0] = *(__u64 *)&leader->comm[0];
	*(__u64 *)&row->comm[8] = *(__u64 *)&leader->comm[8];
}

static __always_inline void clear_row(struct ct_row *row)
{
	__builtin_memset(row, 0, sizeof(*row));
}

static __always_inline struct ct_row *row_at(struct ct_core *c, __u32 r)
{
	if (r >= CT_ROWS)
		return 0;
	// The mask is for the verifier, and the barrier keeps the compiler from seeing through it.
	barrier_var(r);
	return &c->batch.row[r & (CT_ROWS - 1)];
}

static __always_inline __u32 bucket_of(__u32 pid)
{
	return (pid * 0x9e3779b1U) >> 24;
}

static __always_inline __u32 overflow_row(struct ct_core *c)
{
	c->merged_rows++;
	c->batch.overflowed = 1;
	return CT_OVERFLOW;
}

// Puts a new row into the bucket `at`; 0 when the slot has no row left.
static __always_inline struct ct_row *new_row(struct ct_core *c, __u32 at, __u32 pid, __u32 *number)
{
	__u32 r = c->batch.rows;
	struct ct_row *row = row_at(c, r);

	if (!row)
		return 0;
	clear_row(row);
	row->pid = pid;
	row->bucket = at;
	c->index[at & (CT_BUCKETS - 1)] = r;
	c->batch.rows = r + 1;
	*number = r;
	return row;
}

// The row of the task's process in the open slot; the overflow row when there are too many.
static __always_inline __u32 row_of(struct ct_core *c, struct task_struct *task)
{
	__u32 pid = task->tgid;
	__u32 bucket = bucket_of(pid);

	for (int i = 0; i < CT_PROBES; i++) {
		__u32 at = (bucket + i) & (CT_BUCKETS - 1);
		__u32 r = c->index[at];

		if (r == CT_OVERFLOW) { // an empty bucket
			struct task_struct *leader = task->group_leader;
			struct ct_row *row = new_row(c, at, pid, &r);

			if (!row)
				break;
			row->start_boottime_ns = leader->start_boottime;
			row->cgroup_id = cgroup_of(leader);
			name_row(row, leader);
			return r;
		}
		struct ct_row *taken = row_at(c, r);

		if (taken && taken->pid == pid)
			return r;
	}
	return overflow_row(c);
}

// The running process goes on in the slot just opened, which has no row yet.
static __always_inline __u32 carry_row(struct ct_core *c, const struct ct_row *from)
{
	__u64 comm_0 = *(__u64 *)&from->comm[0], comm_8 = *(__u64 *)&from->comm[8];
	__u64 start = from->start_boottime_ns, cgroup = from->cgroup_id;
	__u32 pid = from->pid, number;
	struct ct_row *row = new_row(c, bucket_of(pid), pid, &number);

	if (!row)
		return overflow_row(c);
	row->start_boottime_ns = start;
	row->cgroup_id = cgroup;
	*(__u64 *)&row->comm[0] = comm_0;
	*(__u64 *)&row->comm[8] = comm_8;
	return number;
}

static __always_inline void log_loss(struct ct_core *c, __u32 rows, __u32 tail_rows)
{
	if (c->losses_written - c->losses_read >= CT_LOSSES) {
		c->losses_dropped_rows += rows + tail_rows;
		c->losses_dropped++;
		return;
	}
	struct ct_loss *loss = &c->losses[c->losses_written & (CT_LOSSES - 1)];

	loss->slot_start_ns = c->batch.slot_start_ns;
	loss->tail_slots = c->batch.tail_slots;
	loss->rows = rows;
	loss->events = c->batch.events;
	loss->tail_idle = c->batch.tail_row == CT_IDLE;
	__sync_fetch_and_add(&c->losses_written, 1); // publishes the entry
}

static __always_inline void flush(struct ct_core *c)
{
	struct ct_batch *b = &c->batch;
	__u32 rows = b->rows;
	__u32 tail_rows = b->tail_row == CT_IDLE ? 0 : b->tail_slots;
	__u32 used;

	__sync_fetch_and_add(&c->flushes, 1);
	if (rows > CT_ROWS)
		rows = CT_ROWS;
	used = rows - 1 + b->overflowed;
	c->produced_rows += used + tail_rows;
	if (bpf_ringbuf_output(&batches, b,
			       __builtin_offsetof(struct ct_batch, row) +
				       (__u64)rows * sizeof(struct ct_row),
			       BPF_RB_NO_WAKEUP))
		log_loss(c, used, tail_rows);
}

static __always_inline void open_slot(struct ct_core *c, __u64 end_ns)
{
	struct ct_batch *b = &c->batch;

	c->slot_end_ns = end_ns;
	__builtin_memset(c->index, CT_OVERFLOW, sizeof(c->index));
	b->slot_start_ns = end_ns - settings.slot_ns + settings.clock_offset_ns;
	b->core = bpf_get_smp_processor_id();
	b->idle_ns = 0;
	b->tick_late_ns = 0;
	b->ticked = 0;
	b->tail_slots = 0;
	b->events = 0;
	b->overflowed = 0;
	b->rows = 1;
	clear_row(&b->row[CT_OVERFLOW]);
}

static __always_inline __u64 faults_of(struct task_struct *task)
{
	return task->min_flt + task->maj_flt;
}

static __always_inline void begin_stint(struct ct_core *c, struct task_struct *task)
{
	c->task = (__u64)task;
	c->ran_in = task->se.sum_exec_runtime;
	if (task->pid == 0) {
		c->current = CT_IDLE;
		return;
	}
	c->current = row_of(c, task);
	c->page_faults_in = faults_of(task);
	c->voluntary_in = task->nvcsw;
}

static __always_inline void credit(struct ct_core *c, struct task_struct *task, __u64 ns,
				   const struct ct_delta *d)
{
	struct ct_row *row = row_at(c, c->current);

	if (!row) {
		c->batch.idle_ns += ns;
		return;
	}
	row->on_cpu_ns += ns;
	add_delta(row, d);
	// Renames (exec, prctl) reach the slot they happen in.
	if (task && c->current != CT_OVERFLOW)
		name_row(row, task->group_leader);
}

// The stint of `task` crossed the end of the open slot: hand that slot over, open the current one.
static __always_inline void cross(struct ct_core *c, struct task_struct *task, __u64 now,
				  struct ct_delta *d, __u64 late_ns, bool ticked)
{
	struct ct_batch *b = &c->batch;
	__u64 span = now - c->since_ns;
	__u64 head = c->slot_end_ns - c->since_ns;
	__u64 tail_slots = (now - c->slot_end_ns) / settings.slot_ns;
	struct ct_delta part = {};
	struct ct_row *row;

	share_delta(&part, d, head, span);
	subtract(d, &part);
	credit(c, task, head, &part);
	span -= head;

	b->tail_row = c->current;
	b->tail_slots = tail_slots;
	b->ticked = ticked;
	b->tick_late_ns = late_ns;
	if (tail_slots) {
		share_delta(&part, d, tail_slots * settings.slot_ns, span);
		subtract(d, &part);
		b->tail_page_faults = part.page_faults;
		for (int i = 0; i < CT_COUNTERS; i++)
			b->tail_counters[i] = part.counters[i];
		span -= tail_slots * settings.slot_ns;
	}
	flush(c);
	open_slot(c, c->slot_end_ns + (tail_slots + 1) * settings.slot_ns);
	row = row_at(c, c->current);
	if (row)
		c->current = c->current == CT_OVERFLOW ? overflow_row(c) : carry_row(c, row);
	credit(c, task, span, d);
}

// When counters are read, which is what accounting costs most for.
enum {
	READ_NEVER,
	READ_AT_EDGE, // the same process goes on: only if the slot ends
	READ_ALWAYS,
};

// Credits the running task with everything up to `now`. `task` is 0 when its switch away was not
// traced, so that nothing but its time is known.
static __noinline int account(struct ct_core *c, struct task_struct *task, __u64 now, int read,
			      int ticked)
{
	bool crosses = now >= c->slot_end_ns;
	struct ct_delta d = {};

	if (settings.counters_open && (read == READ_ALWAYS || (read == READ_AT_EDGE && crosses))) {
		read_counters(c, &d);
		if (c->current == CT_IDLE)
			__builtin_memset(d.counters, 0, sizeof(d.counters));
	}
	if (task && c->current != CT_IDLE) {
		__u64 faults = faults_of(task);

		d.page_faults = faults - c->page_faults_in;
		c->page_faults_in = faults;
	}
	if (crosses)
		cross(c, task, now, &d, ticked ? now - c->slot_end_ns : 0, ticked);
	else
		credit(c, task, now - c->since_ns, &d);
	c->since_ns = now;
	c->batch.events++;
	return 0;
}

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

// This core's state, started if this is its first event: `task` has run here since `start_ns`.
static __always_inline struct ct_core *started_core(struct task_struct *task, __u64 now)
{
	__u64 start = control.start_ns;
	__u32 cpu = bpf_get_smp_processor_id();
	struct ct_core *c;

	if (!start || now < start)
		return 0;
	c = bpf_map_lookup_elem(&cores, &cpu);
	if (!c)
		return 0;
	if (!c->since_ns) {
		struct ct_delta ignored = {};

		// A core first seen long after the start was offline: nothing is known of that time.
		if (now - start > 4 * settings.slot_ns + 1000000000ULL)
			start += (now - start) / settings.slot_ns * settings.slot_ns;
		c->since_ns = start;
		open_slot(c, start + settings.slot_ns);
		begin_stint(c, task);
		read_counters(c, &ignored);
	}
	return c;
}

static __always_inline void enter_queue_wait(struct ct_core *c, struct task_struct *next)
{
	struct ct_row *row = row_at(c, c->current);
	__u64 clock = next->se.cfs_rq->rq->clock;
	__u64 queued = next->sched_info.last_queued;
	__u64 seen = next->sched_info.run_delay;
	__u64 total = seen;
	struct ct_task *t;

	if (!row)
		return;
	// sched_switch fires just before the kernel books the wait that ends now (sched_info_arrive).
	if (queued && clock > queued)
		total += clock - queued;
	t = bpf_task_storage_get(&tasks, next, 0, 0);
	if (!t) {
		struct ct_task fresh = { .run_delay_seen = seen, .core = c->batch.core };

		t = bpf_task_storage_get(&tasks, next, &fresh, BPF_LOCAL_STORAGE_GET_F_CREATE);
		if (!t) {
			c->storage_failures++;
			row->runq_wait_ns += total - seen;
			return;
		}
	}
	row->runq_wait_ns += total - t->run_delay_seen;
	t->run_delay_seen = total;
	if (t->core != c->batch.core) {
		t->core = c->batch.core;
		row->migrations++;
	}
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
	__u64 now = bpf_ktime_get_ns();
	struct ct_core *c = started_core(prev, now);
	struct ct_row *row;

	if (!c)
		return 0;
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
			enter_queue_wait(c, next);
		if (settings.slot_timer)
			arm_timer(c);
	}
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
	now = bpf_ktime_get_ns();
	c = started_core(task, now);
	if (c && now >= c->slot_end_ns) {
		notice_unseen_switch(c, task, now);
		account(c, task, now, READ_AT_EDGE, 0);
	}
	return 0;
}

static int on_slot_edge(void *map, __u32 *cpu, struct ct_timer *t)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 now = bpf_ktime_get_ns();
	struct ct_core *c = started_core(task, now);

	if (!c)
		return 0;
	c->timer_armed = 0;
	if (task->pid == 0)
		return 0;
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
