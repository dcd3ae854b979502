// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// The table of processes of the open slot.
#ifndef CT_ROWS_H
#define CT_ROWS_H

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
			row->parent = leader->real_parent->tgid;
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
static __always_inline __u32 carry_row(struct ct_core *c, const struct ct_row *from,
				       struct task_struct *task)
{
	__u64 comm_0 = *(__u64 *)&from->comm[0], comm_8 = *(__u64 *)&from->comm[8];
	__u64 start = from->start_boottime_ns, cgroup = from->cgroup_id;
	__u32 pid = from->pid, parent = from->parent, number;
	struct ct_row *row = new_row(c, bucket_of(pid), pid, &number);

	if (!row)
		return overflow_row(c);
	row->start_boottime_ns = start;
	row->cgroup_id = cgroup;
	row->parent = parent;
	*(__u64 *)&row->comm[0] = comm_0;
	*(__u64 *)&row->comm[8] = comm_8;
	if (task)
		name_row(row, task->group_leader);
	return number;
}

#endif
