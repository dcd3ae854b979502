// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Slots and stints: crediting time, handing a slot over, opening the next.
#ifndef CT_SLOT_H
#define CT_SLOT_H

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

static __always_inline void credit(struct ct_core *c, __u64 ns, const struct ct_delta *d)
{
	struct ct_row *row = row_at(c, c->current);

	if (!row) {
		c->batch.idle_ns += ns;
		return;
	}
	row->on_cpu_ns += ns;
	add_delta(row, d);
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
	credit(c, head, &part);
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
		c->current = c->current == CT_OVERFLOW ? overflow_row(c) : carry_row(c, row, task);
	credit(c, span, d);
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
		credit(c, now - c->since_ns, &d);
	c->since_ns = now;
	c->batch.events++;
	return 0;
}

#endif
