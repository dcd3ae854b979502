//! Mounting, and taking the file system away again.

use std::ffi::CString;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crosstalk_host::{HostRoot, thread};
use crosstalk_resctrl::Resctrl;
use fuser::{BackgroundSession, Config, MountOption, Session, SessionACL};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, unmount};

use crate::fs::{Shared, SimFs};
use crate::kernel::{Fault, Kernel};
use crate::{Error, Profile, threads};

/// Steps between reads, so that limbo and eviction go on while nobody looks.
const PACE: Duration = Duration::from_millis(20);

/// A mounted simulator; unmounts when dropped, even while it is in use.
///
/// ```no_run
/// use crosstalk_resctrl_sim::{Profile, mount};
/// let simulator = mount(Profile::small(), "/tmp/resctrl")?;
/// println!("{}", std::fs::read_to_string(simulator.path().join("schemata"))?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Simulator {
    path: PathBuf,
    identity: Identity,
    shared: Arc<Shared>,
    session: Option<BackgroundSession>,
    ticker: Option<std::thread::JoinHandle<()>>,
    stop_ticker: Option<std::sync::mpsc::Sender<()>>,
}

/// Tells a mount from another at the same place. The number of a device is used again at once; when a simulator was
/// started, which its files bear, is its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    device: u64,
    changed: (i64, i64),
}

impl Identity {
    fn of(path: &Path) -> std::io::Result<Self> {
        let root = std::fs::metadata(path)?;
        Ok(Self { device: root.dev(), changed: (root.ctime(), root.ctime_nsec()) })
    }
}

/// Whether the session ends by itself, as it does a moment after an unmount from outside.
fn ends_soon(session: &BackgroundSession) -> bool {
    let is_over = |_| {
        // There is no event to wait for that cannot also fail to come.
        std::thread::park_timeout(Duration::from_millis(10));
        session.guard.is_finished()
    };
    (0..100).any(is_over)
}

/// Mounts a simulated machine at an existing directory and answers from threads of its own.
///
/// # Errors
/// The directory is missing, or FUSE cannot be mounted there.
pub fn mount(profile: Profile, mountpoint: impl AsRef<Path>) -> Result<Simulator, Error> {
    let path = mountpoint.as_ref().to_owned();
    detach_dead_mount(&path);
    if !path.is_dir() {
        return Err(Error::NoDirectory { path });
    }
    // The kernel says EBUSY to a second mount.
    if Resctrl::open(&path).is_ok() {
        return Err(Error::AlreadyThere { path });
    }
    let shared = Arc::new(Shared {
        kernel: Mutex::new(Kernel::new(profile, HostRoot::default())),
        gone: AtomicBool::new(false),
    });
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName("resctrl".to_owned()),
        MountOption::Subtype("resctrl-sim".to_owned()),
        MountOption::DefaultPermissions,
        MountOption::NoExec,
        MountOption::NoSuid,
        MountOption::NoDev,
    ];
    // The kernel's own is open to every reader too; only root may ask FUSE for that.
    if rustix::process::geteuid().is_root() {
        config.acl = SessionACL::All;
    }
    let filesystem = SimFs::new(Arc::clone(&shared));
    let failed = |source| Error::Mount { path: path.clone(), source };
    let session = spawn_preferred(filesystem, &path, &config).map_err(failed)?;
    let identity = Identity::of(&path).map_err(failed)?;
    let (stop_ticker, stopped) = std::sync::mpsc::channel();
    let ticking = Arc::clone(&shared);
    let ticker = std::thread::Builder::new()
        .name("resctrl-sim".to_owned())
        .spawn(move || tick(&ticking, &stopped))
        .map_err(failed)?;
    Ok(Simulator {
        path,
        identity,
        shared,
        session: Some(session),
        ticker: Some(ticker),
        stop_ticker: Some(stop_ticker),
    })
}

/// Hardware does not wait for a processor before it answers; what stands in for it should not either. The thread that
/// answers is scheduled as the one that starts it, which is therefore not the caller's.
fn spawn_preferred(
    filesystem: SimFs,
    path: &Path,
    config: &Config,
) -> std::io::Result<BackgroundSession> {
    std::thread::scope(|scope| {
        let starter = scope.spawn(move || {
            thread::prefer();
            start_session(filesystem, path, config)
        });
        starter.join().unwrap_or_else(|_| Err(std::io::Error::other("mounting panicked")))
    })
}

/// As root it is mounted here and not by fuser, which unmounts the place again when it is dropped, whatever is there by
/// then. Others need fusermount3, which fuser calls.
fn start_session(
    filesystem: SimFs,
    path: &Path,
    config: &Config,
) -> std::io::Result<BackgroundSession> {
    if !rustix::process::geteuid().is_root() {
        return fuser::spawn_mount(filesystem, path, config);
    }
    let device = File::options().read(true).write(true).open("/dev/fuse")?;
    let options = format!(
        "fd={},rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions",
        device.as_raw_fd()
    );
    let options = CString::new(options)?;
    let flags = MountFlags::NOEXEC | MountFlags::NOSUID | MountFlags::NODEV;
    rustix::mount::mount("resctrl", path, "fuse.resctrl-sim", flags, options.as_c_str())?;
    let session = Session::from_fd(filesystem, device.into(), config.acl, config.clone());
    session.and_then(Session::spawn).inspect_err(|_| {
        // Nobody answers there.
        let _ = unmount(path, UnmountFlags::DETACH);
    })
}

/// Mounts, and returns once `stop` gets a message or loses its sender; then the file system is gone.
///
/// The caller turns SIGINT and SIGTERM into that message. An unmount from outside ends it too.
///
/// # Errors
/// As [`mount`], and a failed unmount.
pub fn run(
    profile: Profile,
    mountpoint: impl AsRef<Path>,
    stop: &Receiver<()>,
) -> Result<(), Error> {
    let simulator = mount(profile, mountpoint)?;
    loop {
        match stop.recv_timeout(Duration::from_millis(200)) {
            Err(RecvTimeoutError::Timeout) if simulator.is_mounted() => {}
            _ => return simulator.unmount(),
        }
    }
}

fn tick(shared: &Shared, stopped: &Receiver<()>) {
    let host = HostRoot::default();
    let mut births = threads::Births::new(&host);
    while stopped.recv_timeout(PACE) == Err(RecvTimeoutError::Timeout) {
        // Listed before the lock is taken: who reads a value does not wait for it.
        let listing = births.happened().then(|| threads::list(&host));
        let mut kernel = shared.kernel();
        if let Some(listing) = listing {
            kernel.threads.merge(listing);
        }
        kernel.advance();
    }
}

/// A simulator that was killed leaves a mount that answers nothing; it would be in the way.
fn detach_dead_mount(path: &Path) {
    let is_dead = std::fs::metadata(path)
        .is_err_and(|error| error.raw_os_error() == Some(Errno::NOTCONN.raw_os_error()));
    if is_dead {
        // If it stays, the mount that follows says why it cannot be.
        let _ = unmount(path, UnmountFlags::DETACH);
    }
}

impl Simulator {
    /// Where it is mounted.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the file system is still there.
    #[must_use]
    pub fn is_mounted(&self) -> bool {
        self.session.as_ref().is_some_and(|session| !session.guard.is_finished())
    }

    /// Makes the monitoring files of a group, named by its path below the mount, say a word instead of a number;
    /// `None` lets it count again. Answers whether there is such a group.
    pub fn set_fault(&self, group: &str, fault: Option<Fault>) -> bool {
        self.shared.kernel().set_fault(group, fault)
    }

    /// How many freed RMIDs still wait for their lines to leave the cache.
    #[must_use]
    pub fn in_limbo(&self) -> usize {
        self.shared.kernel().in_limbo()
    }

    /// Keeps freed RMIDs in limbo for as long as it is held, whatever has left the cache: for tests of clients.
    pub fn hold_limbo(&self, held: bool) {
        self.shared.kernel().hold_limbo(held);
    }

    /// Takes the file system away. Files still open answer ENODEV from here on.
    ///
    /// # Errors
    /// The kernel refuses to unmount.
    pub fn unmount(mut self) -> Result<(), Error> {
        self.take_away().map_err(|source| Error::Unmount { path: self.path.clone(), source })
    }

    fn take_away(&mut self) -> std::io::Result<()> {
        drop(self.stop_ticker.take());
        if let Some(ticker) = self.ticker.take() {
            // A ticker that panicked has said so already.
            let _ = ticker.join();
        }
        let Some(session) = self.session.take() else { return Ok(()) };
        self.shared.gone.store(true, Ordering::Release);
        if session.guard.is_finished() {
            return Ok(());
        }
        // What somebody mounted over it, or in its place, is not ours to take away.
        if Identity::of(&self.path).is_ok_and(|there| there != self.identity) {
            let was_unmounted = ends_soon(&session);
            let over = || std::io::Error::other("something else is mounted over it");
            return if was_unmounted { Ok(()) } else { Err(over()) };
        }
        match unmount(&self.path, UnmountFlags::empty()) {
            Ok(()) => session.join(),
            // Somebody has a file open: the name goes now, the session when the last file is closed.
            Err(Errno::BUSY) => Ok(unmount(&self.path, UnmountFlags::DETACH)?),
            // Not root: fusermount3 does it.
            Err(Errno::PERM) => session.umount_and_join(),
            Err(errno) => Err(errno.into()),
        }
    }
}

impl Drop for Simulator {
    fn drop(&mut self) {
        // Nobody is left to tell; a mount that stays is detached by the next start.
        let _ = self.take_away();
    }
}
