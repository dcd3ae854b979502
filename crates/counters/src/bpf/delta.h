// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// What grows while a task runs, and how it is divided when a stint crosses a slot edge.
#ifndef CT_DELTA_H
#define CT_DELTA_H

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

#endif
