//! What a process cost, from the kernel's own books.

pub struct Measured {
    pub samples: u64,
    pub cpu_seconds: f64,
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
    pub peak_bytes: u64,
}

impl Cost {
    pub fn add(&mut self, run: Measured) {
        self.samples += run.samples;
        self.cpu_seconds += run.cpu_seconds;
        self.peak_bytes = self.peak_bytes.max(run.peak_bytes);
    }

    pub fn per_cpu_second(&self) -> f64 {
        self.samples as f64 / self.cpu_seconds
    }
}

pub fn cpu_seconds(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks = |number: usize| fields[number - 3].parse::<f64>().unwrap();
    (ticks(14) + ticks(15)) / 100.0
}

pub fn peak_bytes(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() * 1024
}
