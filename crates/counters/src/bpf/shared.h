// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// What the kernel programs and the Rust side both see. `src/layout.rs` mirrors it field by field;
// a test compares sizes and offsets with the BTF of the compiled object.
#ifndef CT_SHARED_H
#define CT_SHARED_H

// Distinct processes one core can run in one slot before the rest share the overflow row.
// 62 were seen with 320 runnable tasks, so 128 leaves room.
#define CT_ROWS 128
// Row 0 is the overflow row. An index bucket that says 0 is therefore empty.
#define CT_OVERFLOW 0
// Buckets of the open-addressed index over the rows: a power of two, twice the rows.
#define CT_BUCKETS 256
#define CT_PROBES 32
#define CT_COUNTERS 3
// No row: the core is idle.
#define CT_IDLE 0xffffffffU
// Tasks a core remembers, a power of two; those that share a place with another cost more.
#define CT_VISITS 4096
// Lost batches remembered for user space, per core: a power of two.
#define CT_LOSSES 1024

struct ct_count {
	__u64 value;
	__u64 enabled;
	__u64 running;
};

// One process on one core in one slot.
struct ct_row {
	__u64 start_boottime_ns;
	__u64 cgroup_id;
	__u64 on_cpu_ns;
	__u64 runq_wait_ns;
	struct ct_count counters[CT_COUNTERS];
	char comm[16];
	__u32 pid;
	__u32 switches;
	__u32 voluntary_switches;
	__u32 page_faults;
	__u32 migrations;
	__u32 parent; // process that had it as a child when the slot began
};

// One core in one slot: the unit handed to user space. The task that was running when the slot
// ended may have filled `tail_slots` whole slots after it; their sums are in `tail`.
struct ct_batch {
	__u64 slot_start_ns;
	__u64 idle_ns;
	__u64 tick_late_ns;
	__u64 tail_slots;
	struct ct_count tail_counters[CT_COUNTERS];
	__u32 tail_page_faults;
	__u32 tail_row;
	__u32 core;
	__u32 events;
	__u32 ticked;
	__u32 overflowed;
	__u32 rows; // of `row`, with the overflow row
	__u32 unused;
	struct ct_row row[CT_ROWS];
};

// A batch that did not fit into the ring.
struct ct_loss {
	__u64 slot_start_ns;
	__u64 tail_slots;
	__u32 rows;
	__u32 events;
	__u32 tail_idle;
	__u32 unused;
};

// A task that ran here: as many moves as then means that it ran nowhere else since.
struct ct_visit {
	__u64 run_delay; // of all its waits, the one before its last run here included
	__u32 tid;
	__u32 migrations;
};

// Everything one core owns. Only that core writes it, except `losses_read` (user space).
struct ct_core {
	__u64 since_ns;         // when the running task was last accounted; 0 before the first event
	__u64 slot_end_ns;      // CLOCK_MONOTONIC end of the open slot
	__u64 flushes;          // bumped before the open batch is handed over: a sequence lock for peeking
	__u64 produced_rows;    // rows handed to user space, delivered or lost
	__u64 merged_rows;      // processes that had to share the overflow row
	__u64 storage_failures; // waits before a migration that could not be followed
	__u64 losses_written;
	__u64 losses_read;
	__u64 losses_dropped;      // losses that found the loss log full
	__u64 losses_dropped_rows; // and their rows
	__u64 page_faults_in;   // of the running task, when it was last accounted
	__u64 voluntary_in;
	__u64 task;             // the running task's address, to notice a switch that was not traced
	__u64 ran_in;           // its sum_exec_runtime when it entered
	__u64 unseen_switches;  // switches the kernel did not trace
	__u64 clock_offset_ns;  // CLOCK_MONOTONIC - the run queue's clock, of the open slot
	__u32 current;          // row of the running task, or CT_IDLE
	__u32 timer_armed;
	struct ct_count counters_in[CT_COUNTERS];
	__u8 index[CT_BUCKETS];
	struct ct_visit visits[CT_VISITS];
	struct ct_loss losses[CT_LOSSES];
	struct ct_batch batch;
};

// Set before load; constant for the verifier, which drops what is switched off.
struct ct_settings {
	__u64 slot_ns;
	__u64 clock_offset_ns; // CLOCK_REALTIME - CLOCK_MONOTONIC
	__u32 counters_open;   // a bit per counter
	__u32 follow_runq;
	__u32 slot_timer;
	__u32 cgroup_v1;
	__u32 own_pid;
	__u32 unused;
};

// Set while the programs run.
struct ct_control {
	__u64 start_ns;   // a slot edge, CLOCK_MONOTONIC; 0 until user space is ready
	__u32 next_timer; // the core whose slot timer is prepared next
	__u32 unused;
};

#endif
