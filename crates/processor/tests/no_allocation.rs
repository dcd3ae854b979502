//! The way from a received body to the block that is queued allocates per request, never per sample.
//!
//! The allocator counts for the whole process, so this file has this one test alone.
#![allow(unsafe_code, clippy::unwrap_used)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crosstalk_inventory::{Facts, Pod, Workload};
use crosstalk_processor::cache::{Cache, LabelNames};
use crosstalk_processor::config::Enrichment;
use crosstalk_processor::enrich::Rules;
use crosstalk_processor::ingest::{Ingest, Target};
use crosstalk_processor::metrics::Metrics;
use crosstalk_processor::queue::{Queue, QueueLimits};
use crosstalk_remote_write::{
    Compression, Compressor, Encoder, Label, Limits, Protocol, Sample, Series,
};

struct Counting;
static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes on to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn body(protocol: Protocol, series: usize) -> Vec<u8> {
    let mut encoder = Encoder::new(protocol);
    for number in 0..series {
        let text = number.to_string();
        let labels = [
            Label { name: "__name__", value: "gpu_power" },
            Label { name: "namespace", value: "ml" },
            Label { name: "number", value: &text },
            Label { name: "pod", value: "train-0" },
        ];
        // Some samples are negative and filtered on the way.
        let value = if number % 10 == 0 { -1.0 } else { 1.0 };
        let samples = [Sample::new(value, 1), Sample::new(2.0, 2)];
        encoder.series("", &labels, &Series::of_samples(&labels, &samples));
    }
    Compressor::default().compress(Compression::Snappy, encoder.finish()).to_vec()
}

fn ingest(folder: &std::path::Path, targets: &[(&str, Protocol)]) -> Ingest {
    let cache = Cache::new(LabelNames::default(), Duration::ZERO);
    let workload =
        |uid: &str| Workload { name: "train".into(), uid: uid.into(), ..Default::default() };
    let pod = Pod {
        name: "train-0".into(),
        namespace: "ml".into(),
        uid: "p".into(),
        workloads: vec![workload("w1"), workload("w2")],
        ..Default::default()
    };
    cache.update("static", Facts { pods: vec![pod], ..Facts::default() });
    let target = |name: &str, protocol| {
        let limits =
            QueueLimits { max_bytes: 1 << 30, segment_bytes: 1 << 20, ..QueueLimits::default() };
        let (queue, _) = Queue::open(&folder.join(name), limits).unwrap();
        Target { name: name.into(), protocol, lanes: 1, queue }
    };
    let targets = targets.iter().map(|(name, protocol)| target(name, *protocol)).collect();
    let rules = Rules::new(&Enrichment::default());
    Ingest::new(rules, Arc::new(cache), Limits::default(), targets, Arc::new(Metrics::default()))
}

#[test]
fn allocations_do_not_grow_with_the_samples() {
    // One of 2.0 decodes every series anew; without it what is known of them is used.
    let (one, two) = (("one", Protocol::V1), ("two", Protocol::V2));
    for targets in [&[one][..], &[one, two]] {
        do_not_grow(targets);
    }
}

fn do_not_grow(targets: &[(&str, Protocol)]) {
    let folder = tempfile::tempdir().unwrap();
    let ingest = ingest(folder.path(), targets);
    for protocol in [Protocol::V1, Protocol::V2] {
        let allocations = [10_000, 100].map(|series| {
            let body = body(protocol, series);
            let pass = || {
                let before = ALLOCATIONS.load(Ordering::Relaxed);
                let prepared = ingest.prepare(protocol, Compression::Snappy, &body).unwrap();
                assert_eq!(prepared.outcome.written.samples, 2 * series);
                assert_eq!(prepared.counts.negative_samples, series as u64 / 10);
                ALLOCATIONS.load(Ordering::Relaxed) - before
            };
            // The first pass gives the buffers their size.
            pass();
            pass()
        });
        assert_eq!(allocations[0], allocations[1], "{protocol:?}");
        assert!(allocations[0] < 10, "{protocol:?}: {} allocations a request", allocations[0]);
    }
}
