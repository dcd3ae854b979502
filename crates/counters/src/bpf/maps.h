// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// What the programs keep in the kernel.
#ifndef CT_MAPS_H
#define CT_MAPS_H

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

// Where a task last ran, and how often it had been moved by then.
struct ct_task {
	__u64 migrations;
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

#endif
