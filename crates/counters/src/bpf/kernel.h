// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The few kernel types and constants the programs touch. Field offsets are relocated at load time
// (CO-RE), so only names matter here and no generated vmlinux.h is needed to build or to run.
#ifndef CT_KERNEL_H
#define CT_KERNEL_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef _Bool bool;
enum { false = 0, true = 1 };

// include/uapi/linux/bpf.h: part of the kernel's stable ABI.
enum {
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERF_EVENT_ARRAY = 4,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,

	BPF_F_NO_PREALLOC = 1U << 0,
	BPF_F_MMAPABLE = 1U << 10,
	BPF_RB_NO_WAKEUP = 1U << 0,
	BPF_LOCAL_STORAGE_GET_F_CREATE = 1U << 0,
	BPF_F_TIMER_ABS = 1U << 0,
	BPF_F_TIMER_CPU_PIN = 1U << 1,
};
#define BPF_F_CURRENT_CPU 0xffffffffULL

struct bpf_timer {
	__u64 opaque[2];
} __attribute__((aligned(8)));

struct bpf_perf_event_value {
	__u64 counter;
	__u64 enabled;
	__u64 running;
};

#define CT_CORE __attribute__((preserve_access_index))

struct kernfs_node {
	__u64 id;
} CT_CORE;

struct cgroup {
	struct kernfs_node *kn;
} CT_CORE;

struct cgroup_subsys_state {
	struct cgroup *cgroup;
} CT_CORE;

struct css_set {
	struct cgroup_subsys_state *subsys[16];
	struct cgroup *dfl_cgrp;
} CT_CORE;

enum cgroup_subsys_id { memory_cgrp_id = 0 };

struct sched_info {
	unsigned long long run_delay;
	unsigned long long last_arrival;
	unsigned long long last_queued;
} CT_CORE;

struct rq {
	__u64 clock;
} CT_CORE;

struct cfs_rq {
	struct rq *rq;
} CT_CORE;

// Every task, whatever its class, has the cfs_rq of its group on its core (CONFIG_FAIR_GROUP_SCHED).
struct sched_entity {
	__u64 sum_exec_runtime;
	__u64 nr_migrations;
	struct cfs_rq *cfs_rq;
} CT_CORE;

struct task_struct {
	int pid;
	int tgid;
	struct task_struct *real_parent;
	struct task_struct *group_leader;
	unsigned long nvcsw;
	__u64 start_time;
	__u64 start_boottime;
	unsigned long min_flt;
	unsigned long maj_flt;
	char comm[16];
	struct css_set *cgroups;
	struct sched_entity se;
	struct sched_info sched_info;
} CT_CORE;

#endif
