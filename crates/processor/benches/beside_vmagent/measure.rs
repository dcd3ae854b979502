//! What a process cost, from the kernel's own books.

pub struct Measured {
    pub samples: u64,
    pub cpu_seconds: f64,
    /// From the first sample sent to the last at the store.
    pub seconds: f64,
    pub peak_bytes: u64,
}

impl Measured {
    pub fn per_cpu_second(&self) -> f64 {
        self.samples as f64 / self.cpu_seconds
    }
}

/// Several runs of one program.
#[derive(Default)]
pub struct Cost {
    samples: u64,
    cpu_seconds: f64,
    seconds: f64,
    pub peak_bytes: u64,
}

impl Cost {
    pub fn add(&mut self, run: Measured) {
        self.samples += run.samples;
        self.cpu_seconds += run.cpu_seconds;
        self.seconds += run.seconds;
        self.peak_bytes = self.peak_bytes.max(run.peak_bytes);
    }

    pub fn per_cpu_second(&self) -> f64 {
        self.samples as f64 / self.cpu_seconds
    }

    /// By the clock.
    pub fn per_second(&self) -> f64 {
        self.samples as f64 / self.seconds
    }
}
