use crosstalk_host::WithFix;
use std::io;

/// Why the collector cannot run at all. A missing counter is not among the reasons.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The process may not load BPF programs.
    #[error("not allowed to load BPF programs")]
    NotPermitted,
    /// The kernel does not describe its types.
    #[error("this kernel has no type information ({path} is missing)")]
    NoBtf {
        /// Where it was looked for.
        path: String,
    },
    /// The kernel refuses the bpf system call.
    #[error("this kernel does not offer BPF ({0})")]
    NoBpf(io::Error),
    /// The kernel's verifier or loader refused the programs.
    #[error("the kernel refused the BPF programs: {reason}")]
    Load {
        /// What libbpf and the verifier said last.
        reason: String,
    },
    /// The programs were loaded but something around them failed.
    #[error("{doing}: {source}")]
    Kernel {
        /// What was being done.
        doing: String,
        /// The kernel's reason.
        source: io::Error,
    },
}

impl WithFix for Error {
    fn fix(&self) -> Option<&str> {
        match self {
            Self::NotPermitted => Some("run as root, or give the binary CAP_BPF and CAP_PERFMON"),
            Self::NoBtf { .. } => Some("boot a kernel built with CONFIG_DEBUG_INFO_BTF=y"),
            Self::NoBpf(_) => Some(
                "boot a kernel with CONFIG_BPF_SYSCALL=y, or allow the bpf system call in the container's seccomp profile",
            ),
            Self::Load { .. } => Some("Linux 5.15 or newer is needed"),
            Self::Kernel { .. } => None,
        }
    }
}

impl Error {
    pub(crate) fn kernel(doing: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Self::Kernel { doing: doing.into(), source: source.into() }
    }

    pub(crate) fn libbpf(doing: impl Into<String>, error: &libbpf_rs::Error) -> Self {
        Self::kernel(doing, io::Error::other(error.to_string()))
    }
}
