//! The FUSE side: names and inode numbers to places, requests to the simulated kernel.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, LockOwner,
    OpenAccMode, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, TimeOrNow, WriteFlags,
};

use crate::kernel::tasks::Caller;
use crate::kernel::{Kernel, Kind, ROOT};
use crate::layout::{Entry, File, Layout, Node, Place};

/// Names come and go without the kernel's page cache hearing of it: nothing is cached.
const NO_CACHE: Duration = Duration::ZERO;

/// What the mount and its handle share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) kernel: Mutex<Kernel>,
    /// Set when the file system goes away under its users.
    pub(crate) gone: AtomicBool,
}

impl Shared {
    pub(crate) fn kernel(&self) -> MutexGuard<'_, Kernel> {
        self.kernel.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) struct SimFs {
    shared: Arc<Shared>,
    layouts: [Layout; 3],
    /// What a file said when it was read from the start: the rest of a long read must fit to it.
    open: Mutex<HashMap<u64, Arc<str>>>,
    next_handle: AtomicU64,
    started: SystemTime,
}

impl SimFs {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let layouts = {
            let kernel = shared.kernel();
            [Kind::Root, Kind::Control, Kind::Monitor].map(|kind| Layout::new(&kernel, kind))
        };
        Self {
            shared,
            layouts,
            open: Mutex::default(),
            next_handle: AtomicU64::new(1),
            started: SystemTime::now(),
        }
    }

    fn kernel(&self) -> Result<MutexGuard<'_, Kernel>, Errno> {
        if self.shared.gone.load(Ordering::Acquire) {
            return Err(Errno::ENODEV);
        }
        Ok(self.shared.kernel())
    }

    fn layout(&self, kind: Kind) -> &Layout {
        match kind {
            Kind::Root => &self.layouts[0],
            Kind::Control => &self.layouts[1],
            Kind::Monitor => &self.layouts[2],
        }
    }

    fn at(&self, kernel: &Kernel, inode: INodeNo) -> Result<(Place, &Entry), Errno> {
        let place = Place::of_inode(inode.into()).ok_or(Errno::ENOENT)?;
        let entry = self.layout(kernel.kind(place.group)?).entry(place.slot);
        Ok((place, entry.ok_or(Errno::ENOENT)?))
    }

    /// The groups whose directories are inside this place.
    fn inner_groups(node: &Node, place: Place) -> Option<Kind> {
        match node {
            Node::Group if place.group == ROOT => Some(Kind::Control),
            Node::MonGroups => Some(Kind::Monitor),
            _ => None,
        }
    }

    fn resolve(&self, kernel: &Kernel, parent: INodeNo, name: &OsStr) -> Result<Place, Errno> {
        let (place, entry) = self.at(kernel, parent)?;
        let name = name.to_str().ok_or(Errno::ENOENT)?;
        if let Some(slot) = self.layout(kernel.kind(place.group)?).find(place.slot, name) {
            return Ok(Place { slot, ..place });
        }
        let group = Self::inner_groups(&entry.node, place)
            .and_then(|kind| kernel.find(place.group, kind, name))
            .ok_or(Errno::ENOENT)?;
        Ok(Place { group, slot: 0 })
    }

    fn attributes(&self, place: Place, node: &Node) -> FileAttr {
        let (kind, perm) = match node {
            Node::File(file) if file.is_writable() => (FileType::RegularFile, 0o644),
            Node::File(_) => (FileType::RegularFile, 0o444),
            _ => (FileType::Directory, 0o755),
        };
        FileAttr {
            ino: INodeNo(place.inode()),
            size: 0,
            blocks: 0,
            atime: self.started,
            mtime: self.started,
            ctime: self.started,
            crtime: self.started,
            kind,
            perm,
            nlink: if kind == FileType::Directory { 2 } else { 1 },
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }

    fn attributes_at(&self, kernel: &Kernel, place: Place) -> Result<FileAttr, Errno> {
        let (_, entry) = self.at(kernel, INodeNo(place.inode()))?;
        Ok(self.attributes(place, &entry.node))
    }

    fn make(&self, parent: INodeNo, name: &OsStr) -> Result<FileAttr, Errno> {
        let mut kernel = self.kernel()?;
        let (place, entry) = self.at(&kernel, parent)?;
        let name = name.to_str().ok_or(Errno::EINVAL)?;
        let group = match Self::inner_groups(&entry.node, place) {
            Some(Kind::Control) => kernel.make_control_group(name)?,
            Some(_) => kernel.make_monitor_group(place.group, name)?,
            None if name.contains('\n') => return Err(Errno::EINVAL),
            None => return Err(Errno::EPERM),
        };
        self.attributes_at(&kernel, Place { group, slot: 0 })
    }

    fn remove(&self, parent: INodeNo, name: &OsStr) -> Result<(), Errno> {
        let mut kernel = self.kernel()?;
        let place = self.resolve(&kernel, parent, name)?;
        if place.slot != 0 { Err(Errno::EPERM) } else { kernel.remove_group(place.group) }
    }

    fn contents(&self, inode: INodeNo, handle: u64, offset: u64) -> Result<Arc<str>, Errno> {
        let mut kernel = self.kernel()?;
        let (place, entry) = self.at(&kernel, inode)?;
        let Node::File(file) = &entry.node else { return Err(Errno::EISDIR) };
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let (true, Some(text)) = (offset > 0, open.get(&handle)) {
            return Ok(Arc::clone(text));
        }
        let text: Arc<str> = kernel.show(place.group, file)?.into();
        open.insert(handle, Arc::clone(&text));
        Ok(text)
    }

    fn opened(&self, inode: INodeNo, flags: OpenFlags) -> Result<FileHandle, Errno> {
        let kernel = self.kernel()?;
        let (_, entry) = self.at(&kernel, inode)?;
        let writes = flags.acc_mode() != OpenAccMode::O_RDONLY;
        match &entry.node {
            Node::File(file) if writes && !file.is_writable() => Err(Errno::EINVAL),
            Node::File(_) => Ok(FileHandle(self.next_handle.fetch_add(1, Ordering::Relaxed))),
            _ => Err(Errno::EISDIR),
        }
    }

    fn stored(&self, inode: INodeNo, data: &[u8], caller: Caller) -> Result<(), Errno> {
        let mut kernel = self.kernel()?;
        let (place, entry) = self.at(&kernel, inode)?;
        let Node::File(file) = &entry.node else { return Err(Errno::EISDIR) };
        let file: &File = file;
        // The kernel takes bytes; what is no text cannot be right, and the words say so.
        let text = String::from_utf8_lossy(data);
        kernel.store(place.group, file, &text, caller)
    }

    fn listing(&self, inode: INodeNo) -> Result<Vec<(u64, FileType, String)>, Errno> {
        let kernel = self.kernel()?;
        let (place, entry) = self.at(&kernel, inode)?;
        let own = u64::from(inode);
        let mut names = vec![
            (own, FileType::Directory, ".".to_owned()),
            (own, FileType::Directory, "..".to_owned()),
        ];
        for (slot, child) in self.layout(kernel.kind(place.group)?).children(place.slot) {
            let kind = self.attributes(place, &child.node).kind;
            names.push((Place { slot, ..place }.inode(), kind, child.name.clone()));
        }
        if let Some(kind) = Self::inner_groups(&entry.node, place) {
            for (group, name) in kernel.children(place.group, kind) {
                names.push((Place { group, slot: 0 }.inode(), FileType::Directory, name));
            }
        }
        Ok(names)
    }
}

impl Filesystem for SimFs {
    fn lookup(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = self.kernel().and_then(|kernel| {
            let place = self.resolve(&kernel, parent, name)?;
            self.attributes_at(&kernel, place)
        });
        match found {
            Ok(attributes) => reply.entry(&NO_CACHE, &attributes, Generation(0)),
            Err(errno) => reply.error(errno),
        }
    }

    fn getattr(&self, _req: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        let found = self.kernel().and_then(|kernel| {
            let (place, entry) = self.at(&kernel, ino)?;
            Ok(self.attributes(place, &entry.node))
        });
        match found {
            Ok(attributes) => reply.attr(&NO_CACHE, &attributes),
            Err(errno) => reply.error(errno),
        }
    }

    /// Shells truncate before they write; there is nothing to cut.
    fn setattr(
        &self,
        req: &Request,
        ino: INodeNo,
        _mode: Option<u32>,
        _uid: Option<u32>,
        _gid: Option<u32>,
        _size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        self.getattr(req, ino, fh, reply);
    }

    fn mkdir(
        &self,
        _req: &Request,
        parent: INodeNo,
        name: &OsStr,
        _mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        match self.make(parent, name) {
            Ok(attributes) => reply.entry(&NO_CACHE, &attributes, Generation(0)),
            Err(errno) => reply.error(errno),
        }
    }

    fn rmdir(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        match self.remove(parent, name) {
            Ok(()) => reply.ok(),
            Err(errno) => reply.error(errno),
        }
    }

    fn unlink(&self, _req: &Request, _parent: INodeNo, _name: &OsStr, reply: ReplyEmpty) {
        reply.error(Errno::EPERM);
    }

    fn create(
        &self,
        _req: &Request,
        _parent: INodeNo,
        _name: &OsStr,
        _mode: u32,
        _umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        reply.error(Errno::EACCES);
    }

    fn rename(
        &self,
        _req: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        _flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let renamed = self.kernel().and_then(|mut kernel| {
            let source = self.resolve(&kernel, parent, name)?;
            let (target, entry) = self.at(&kernel, newparent)?;
            let target = (entry.node == Node::MonGroups).then_some(target.group);
            let newname = newname.to_str().ok_or(Errno::EINVAL)?;
            kernel.rename((source.slot == 0).then_some(source.group), target, newname)
        });
        match renamed {
            Ok(()) => reply.ok(),
            Err(errno) => reply.error(errno),
        }
    }

    fn open(&self, _req: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        match self.opened(ino, flags) {
            // Without the page cache every pread sees the value of its moment.
            Ok(handle) => {
                reply.opened(handle, FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_NOFLUSH);
            }
            Err(errno) => reply.error(errno),
        }
    }

    fn read(
        &self,
        _req: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.contents(ino, fh.into(), offset) {
            Ok(text) => {
                let rest =
                    usize::try_from(offset).ok().and_then(|from| text.as_bytes().get(from..));
                let rest = rest.unwrap_or_default();
                reply.data(&rest[..rest.len().min(size as usize)]);
            }
            Err(errno) => reply.error(errno),
        }
    }

    fn write(
        &self,
        req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        _offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let caller = Caller { pid: req.pid(), uid: req.uid() };
        match self.stored(ino, data, caller) {
            Ok(()) => reply.written(u32::try_from(data.len()).unwrap_or(u32::MAX)),
            Err(errno) => reply.error(errno),
        }
    }

    fn release(
        &self,
        _req: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(&fh.into());
        reply.ok();
    }

    fn readdir(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let names = match self.listing(ino) {
            Ok(names) => names,
            Err(errno) => return reply.error(errno),
        };
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        for (index, (inode, kind, name)) in names.into_iter().enumerate().skip(from) {
            if reply.add(INodeNo(inode), index as u64 + 1, kind, name) {
                break;
            }
        }
        reply.ok();
    }
}
