//! A file being written is locked, so that another recorder does not "recover" it.
#![allow(unsafe_code)] // one system call the standard library does not offer in this form

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Takes the file for ourselves; false when another process has it.
pub(crate) fn try_lock(file: &File) -> io::Result<bool> {
    // SAFETY: flock takes a descriptor we own and no pointers.
    if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    if error.kind() == io::ErrorKind::WouldBlock { Ok(false) } else { Err(error) }
}
