//! Once the buffers have their size, a request is decoded, encoded and compressed without touching the heap.
//!
//! The allocator counts for the whole process, so this file has this one test alone.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use crosstalk_remote_write::{
    Compression, Compressor, Decoder, Decompressor, Encoder, Label, Limits, Metadata, Protocol,
    Receiver, Sample, Series,
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

struct Forward<'e>(&'e mut Encoder);

impl<'b> Receiver<'b> for Forward<'_> {
    fn series(&mut self, series: &Series<'_, 'b>) {
        self.0.series("workload_", series.labels, series);
    }
    fn metadata(&mut self, metadata: &Metadata<'b>) {
        self.0.metadata("workload_", metadata);
    }
}

fn request(protocol: Protocol) -> Vec<u8> {
    let mut encoder = Encoder::new(protocol);
    for number in 0..1000 {
        let pod = format!("pod-{number}");
        // Out of order on purpose: sorting must not allocate either.
        let labels = [
            Label { name: "pod", value: &pod },
            Label { name: "__name__", value: "gpu_utilization" },
            Label { name: "gpu_id", value: "3" },
        ];
        let samples = [Sample::new(f64::from(number), 1), Sample::new(2.0, 2)];
        encoder.series("", &labels, &Series::of_samples(&labels, &samples));
    }
    Compressor::default().compress(Compression::Snappy, encoder.finish()).to_vec()
}

#[test]
fn a_warm_pipeline_allocates_nothing() {
    for protocol in [Protocol::V1, Protocol::V2] {
        let body = request(protocol);
        let mut decompressor = Decompressor::default();
        let mut decoder = Decoder::new(Limits::default());
        let mut encoder = Encoder::new(protocol);
        let mut compressor = Compressor::default();
        let mut pass = || {
            encoder.clear();
            let plain =
                decompressor.decompress(Compression::Snappy, &body, &Limits::default()).unwrap();
            decoder.decode(protocol, plain, &mut Forward(&mut encoder)).unwrap();
            compressor.compress(Compression::Snappy, encoder.finish()).len()
        };
        let warm = pass();
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        for _ in 0..10 {
            assert_eq!(pass(), warm);
        }
        let allocations = ALLOCATIONS.load(Ordering::Relaxed) - before;
        assert_eq!(allocations, 0, "{protocol:?}: allocations in 20,000 samples");
    }
}
