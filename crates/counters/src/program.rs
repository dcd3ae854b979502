//! Loads the compiled programs and holds what the kernel gave for them.

use crate::error::Error;
use crate::layout::{Control, Settings};
use libbpf_rs::{
    Link, MapCore, MapFlags, MapHandle, Object, ObjectBuilder, OpenObject, PrintLevel,
};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Mutex, PoisonError};

pub(crate) static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/collector.bpf.o"));

/// How large things are made at load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) possible_cores: u32,
    pub(crate) ring_bytes: u32,
}

/// The loaded programs; dropping it detaches and frees everything.
pub(crate) struct Programs {
    object: Object,
    links: Vec<Link>,
}

/// What libbpf printed while it last loaded, so that a refusal can be explained.
static LOG: Mutex<String> = Mutex::new(String::new());

fn keep_log(_: PrintLevel, text: String) {
    let mut log = LOG.lock().unwrap_or_else(PoisonError::into_inner);
    if log.len() < 64 * 1024 {
        log.push_str(&text);
    }
}

impl Programs {
    /// Loads the programs the settings need; nothing runs yet.
    pub(crate) fn load(settings: Settings, sizes: Sizes) -> Result<Self, Error> {
        LOG.lock().unwrap_or_else(PoisonError::into_inner).clear();
        libbpf_rs::set_print(Some((PrintLevel::Warn, keep_log)));
        let object = prepare(settings, sizes).and_then(OpenObject::load).map_err(refused)?;
        Ok(Self { object, links: Vec::new() })
    }

    /// Attaches the program called `name`.
    pub(crate) fn attach(&mut self, name: &str) -> Result<(), Error> {
        let link = self.attach_once(name)?;
        self.links.push(link);
        Ok(())
    }

    /// Attaches the program for as long as the caller keeps the link.
    pub(crate) fn attach_once(&self, name: &str) -> Result<Link, Error> {
        let program = self
            .object
            .progs_mut()
            .find(|program| program.name() == name)
            .expect("every program named here is in the object");
        program.attach().map_err(|e| Error::libbpf(format!("cannot attach {name}"), &e))
    }

    /// Stops all programs.
    pub(crate) fn detach(&mut self) {
        self.links.clear();
    }

    /// A handle to the map called `name`.
    pub(crate) fn map(&self, name: &str) -> Result<MapHandle, Error> {
        let map = self
            .object
            .maps()
            .find(|map| map.name() == name)
            .expect("every map named here is in the object");
        MapHandle::try_from(&map).map_err(|e| Error::libbpf(format!("cannot open map {name}"), &e))
    }

    /// Writes the control block.
    pub(crate) fn control(&self, control: Control) -> Result<(), Error> {
        let map = self.object.maps().find(|map| map.name().to_string_lossy().ends_with(".bss"));
        map.expect("the control block is in .bss")
            .update(&0u32.to_ne_bytes(), bytemuck::bytes_of(&control), MapFlags::ANY)
            .map_err(|e| Error::libbpf("cannot write the control block", &e))
    }

    /// The descriptors of the loaded programs.
    pub(crate) fn descriptors(&self) -> Vec<i32> {
        self.object
            .progs()
            .map(|program| program.as_fd().as_raw_fd())
            .filter(|fd| *fd >= 0)
            .collect()
    }
}

fn prepare(settings: Settings, sizes: Sizes) -> libbpf_rs::Result<OpenObject> {
    let mut open = ObjectBuilder::default().name("crosstalk")?.open_memory(OBJECT)?;
    for mut map in open.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        match name.as_str() {
            "cores" | "timers" | "counter_0" | "counter_1" | "counter_2" => {
                map.set_max_entries(sizes.possible_cores)?;
            }
            "batches" => map.set_max_entries(sizes.ring_bytes)?,
            _ if name.ends_with(".rodata") => {
                map.set_initial_value(bytemuck::bytes_of(&settings))?;
            }
            _ => {}
        }
    }
    let ticking = settings.slot_timer != 0;
    for mut program in open.progs_mut() {
        let wanted = match program.name().to_str() {
            Some("on_kernel_tick") => !ticking,
            Some("arm_timers") => ticking,
            _ => true,
        };
        program.set_autoload(wanted);
    }
    Ok(open)
}

fn refused(error: libbpf_rs::Error) -> Error {
    if error.kind() == libbpf_rs::ErrorKind::PermissionDenied {
        return Error::NotPermitted;
    }
    let log = LOG.lock().unwrap_or_else(PoisonError::into_inner);
    let telling = |line: &&str| {
        let noise = ["BEGIN PROG", "END PROG", "processed ", "failed to load"];
        !line.trim().is_empty() && !noise.iter().any(|part| line.contains(part))
    };
    let last = log.lines().rev().find(telling).unwrap_or_default().trim();
    Error::Load { reason: format!("{error} ({last})") }
}

/// Whether the kernel answers the bpf system call at all.
pub(crate) fn bpf_available() -> io::Result<()> {
    const BPF_MAP_GET_NEXT_ID: libc::c_long = 12;
    let mut attr = [0u64; 16];
    // SAFETY: the attribute block is zeroed, larger than the command reads, and outlives the call.
    let result = unsafe {
        libc::syscall(libc::SYS_bpf, BPF_MAP_GET_NEXT_ID, attr.as_mut_ptr(), size_of_val(&attr))
    };
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        _ if result == 0 => Ok(()),
        Some(libc::ENOSYS) => Err(error),
        // ENOENT: no map yet. EPERM: the call exists and is refused to us, which is told apart later.
        _ => Ok(()),
    }
}
