//! Restricts the system calls of a confined process, by seccomp.
//!
//! Two filters: one lists the known calls, so that all others do not exist for the process (ENOSYS, on which a C
//! library uses an older call); one lists the forbidden calls (EPERM). Most calls are decided by their number alone.
//! Linux caches those verdicts in a bitmap, so a filter of any length costs them nothing.

use std::collections::BTreeMap;

use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
};

use weir_sys::isolation;

use crate::Error;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Calls that depend on the program's purpose.
#[derive(Clone, Copy)]
pub(crate) struct Calls {
    /// It may trace (ptrace).
    pub trace: bool,
    /// It may start no process.
    pub alone: bool,
    /// It may make no link, pipe or socket anywhere.
    pub plain: bool,
}

/// Enforces both filters on this thread and what it starts.
pub(crate) fn enforce(calls: &Calls) -> Result<(), Error> {
    // If neither filter passes a call, the one installed last decides the error.
    install(&program(known(calls)?, SeccompAction::Errno(libc::ENOSYS as u32), SeccompAction::Allow)?)?;
    install(&program(forbidden(calls), SeccompAction::Allow, SeccompAction::Errno(libc::EPERM as u32))?)
}

fn program(calls: Rules, others: SeccompAction, these: SeccompAction) -> Result<BpfProgram, Error> {
    let arch: TargetArch = std::env::consts::ARCH.try_into().map_err(filter_error)?;
    SeccompFilter::new(calls, others, these, arch).map_err(filter_error)?.try_into().map_err(filter_error)
}

fn filter_error(error: seccompiler::BackendError) -> Error {
    Error::Filter(error.to_string())
}

fn install(program: &BpfProgram) -> Result<(), Error> {
    let lines = program.iter().map(|line| (line.code, line.jt, line.jf, line.k));
    isolation::install_filter(lines).map_err(Error::call("install a filter of system calls"))
}

/// The known calls.
fn known(&Calls { trace, alone, .. }: &Calls) -> Result<Rules, Error> {
    let mut calls: Rules = KNOWN.iter().chain(OF_THIS_ARCHITECTURE).map(|&call| (call, Vec::new())).collect();
    if trace {
        calls.insert(libc::SYS_ptrace, Vec::new());
    }
    if alone {
        calls.insert(libc::SYS_memfd_create, Vec::new()); // by which it loads what it was given
    }
    calls.extend(openings()?);
    for (call, rules) in [
        (libc::SYS_clone, vec![clone_rule(alone)?]),
        (libc::SYS_socketpair, pairs()?),
        (libc::SYS_ioctl, one_of(1, IOCTLS)?),
        (libc::SYS_fcntl, one_of(1, FCNTLS)?),
        // Of itself only; the limit on dumps stays (limits.rs).
        (libc::SYS_setrlimit, vec![rule([not(0, RLIMIT_CORE)?])?]),
        (libc::SYS_prlimit64, vec![rule([is(0, 0)?, not(1, RLIMIT_CORE)?])?, rule([is(0, 0)?, null(2)?])?]),
        (libc::SYS_setpriority, vec![rule([is(0, 0)?, is(1, 0)?])?]),
        (libc::SYS_sched_setaffinity, vec![rule([is(0, 0)?])?]),
        // `make` gives each child its own user id again; a process without capabilities cannot take another.
        (libc::SYS_setresuid, vec![rule([is(0, KEEP)?, is(2, KEEP)?])?]),
        (libc::SYS_setresgid, vec![rule([is(0, KEEP)?, is(2, KEEP)?])?]),
        // RENAME_WHITEOUT leaves a device in a file's place, and Landlock does not check it.
        (libc::SYS_renameat2, vec![rule([masked32(4, libc::RENAME_WHITEOUT, 0)?])?]),
        // An address could name a socket of the host.
        (libc::SYS_sendto, vec![rule([null(4)?])?]),
    ] {
        calls.insert(call, rules);
    }
    Ok(calls)
}

/// Leaves a user or group unchanged.
const KEEP: u32 = u32::MAX;

/// Calls that create files, except with set-user-ID or set-group-ID, which would outlive the confinement.
fn openings() -> Result<Rules, Error> {
    const MAKES: u32 = (libc::O_CREAT | 0o20_000_000) as u32; // the second bit alone means O_TMPFILE
    const LENDS: u32 = 0o6000;
    let opening = |flags, mode| Ok(vec![rule([masked32(flags, MAKES, 0)?])?, rule([masked32(mode, LENDS, 0)?])?]);
    let making = |mode| Ok(vec![rule([masked32(mode, LENDS, 0)?])?]);
    let mut calls = Rules::from([(libc::SYS_openat, opening(2, 3)?), (libc::SYS_mknodat, making(2)?)]);
    #[cfg(target_arch = "x86_64")]
    calls.extend([(libc::SYS_open, opening(1, 2)?), (libc::SYS_creat, making(1)?), (libc::SYS_mknod, making(1)?)]);
    Ok(calls)
}

/// Threads; also processes, unless it must stay alone; never a namespace.
fn clone_rule(alone: bool) -> Result<SeccompRule, Error> {
    let thread = libc::CLONE_THREAD as u64;
    if alone {
        rule([masked(0, NAMESPACES, 0)?, masked(0, thread, thread)?])
    } else {
        rule([masked(0, NAMESPACES, 0)?])
    }
}

/// The forbidden ones of the known calls, and calls that deserve a clear error.
fn forbidden(&Calls { trace, alone, plain }: &Calls) -> Rules {
    let tracing = if trace { &[][..] } else { &[libc::SYS_ptrace][..] };
    let starting = if alone { PROCESSES_OF_THIS_ARCHITECTURE } else { &[] };
    // Memory that no limit of a process counts.
    let holding = if alone { &[][..] } else { &[libc::SYS_memfd_create][..] };
    let always = FORBIDDEN.iter().chain(FORBIDDEN_OF_THIS_ARCHITECTURE);
    let linking = if plain { SPECIALS } else { &[] };
    let linking_here = if plain { SPECIALS_OF_THIS_ARCHITECTURE } else { &[] };
    let here = starting.iter().chain(linking).chain(linking_here);
    always.chain(tracing).chain(holding).chain(here).map(|&call| (call, Vec::new())).collect()
}

/// Of connected pairs, only kinds that cannot send to other sockets.
fn pairs() -> Result<Vec<SeccompRule>, Error> {
    let kind = !(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK) as u32;
    [libc::SOCK_STREAM, libc::SOCK_SEQPACKET]
        .into_iter()
        .map(|wanted| rule([is(0, libc::AF_UNIX as u32)?, masked32(1, kind, wanted as u32)?]))
        .collect()
}

fn one_of(argument: u8, values: &[u32]) -> Result<Vec<SeccompRule>, Error> {
    values.iter().map(|&value| rule([is(argument, value)?])).collect()
}

fn rule(conditions: impl Into<Vec<SeccompCondition>>) -> Result<SeccompRule, Error> {
    SeccompRule::new(conditions.into()).map_err(filter_error)
}

/// The kernel uses 32 bits of these arguments.
fn is(argument: u8, value: u32) -> Result<SeccompCondition, Error> {
    condition(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value.into())
}

fn not(argument: u8, value: u32) -> Result<SeccompCondition, Error> {
    condition(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, value.into())
}

fn null(argument: u8) -> Result<SeccompCondition, Error> {
    condition(argument, SeccompCmpArgLen::Qword, SeccompCmpOp::Eq, 0)
}

fn masked(argument: u8, mask: u64, value: u64) -> Result<SeccompCondition, Error> {
    condition(argument, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(mask), value)
}

fn masked32(argument: u8, mask: u32, value: u32) -> Result<SeccompCondition, Error> {
    condition(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(mask.into()), value.into())
}

fn condition(argument: u8, len: SeccompCmpArgLen, op: SeccompCmpOp, value: u64) -> Result<SeccompCondition, Error> {
    SeccompCondition::new(argument, len, op, value).map_err(filter_error)
}

/// `libc` gives it another type for each C library.
const RLIMIT_CORE: u32 = 4;

const NAMESPACES: u64 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET) as u64;

/// For terminals, the requests of a full-screen program: neither input in its user's name (TIOCSTI, TIOCLINUX) nor line
/// disciplines. For files, none: some requests change a file that was opened for reading.
const IOCTLS: &[u32] = &[
    libc::TCGETS as u32,
    libc::TCSETS as u32,
    libc::TCSETSW as u32,
    libc::TCSETSF as u32,
    0x802c_542a, // TCGETS2
    0x402c_542b, // TCSETS2
    0x402c_542c, // TCSETSW2
    0x402c_542d, // TCSETSF2
    libc::TCSBRK as u32,
    libc::TCXONC as u32,
    libc::TCFLSH as u32,
    libc::TIOCGPGRP as u32,
    libc::TIOCGSID as u32,
    libc::TIOCGWINSZ as u32,
    libc::TIOCOUTQ as u32,
    libc::FIOCLEX as u32,
    libc::FIONCLEX as u32,
    libc::FIONBIO as u32,
    libc::FIOASYNC as u32,
    libc::FIONREAD as u32,
];

/// No locks and no leases: on a file outside, they would block others.
const FCNTLS: &[u32] = &[
    libc::F_DUPFD as u32,
    libc::F_DUPFD_CLOEXEC as u32,
    libc::F_GETFD as u32,
    libc::F_SETFD as u32,
    libc::F_GETFL as u32,
    libc::F_SETFL as u32,
    libc::F_GETOWN as u32,
    libc::F_SETOWN as u32,
    10, // F_SETSIG
    11, // F_GETSIG
    15, // F_SETOWN_EX
    libc::F_SETPIPE_SZ as u32,
    libc::F_GETPIPE_SZ as u32,
    libc::F_ADD_SEALS as u32,
    libc::F_GET_SEALS as u32,
];

/// System calls that are neither known nor merely missing: the caller gets a clear refusal.
const FORBIDDEN: &[c_long] = &[
    libc::SYS_socket,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    libc::SYS_flock,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_syslog,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_vhangup,
    libc::SYS_open_by_handle_at,
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_inotify_init1, // Landlock does not cover it: it would reveal events in hidden folders
    libc::SYS_inotify_add_watch,
    libc::SYS_fanotify_init,
    libc::SYS_fanotify_mark,
    libc::SYS_seccomp,
    libc::SYS_msgget,
    libc::SYS_semget,
    libc::SYS_mq_open,
];

#[cfg(target_arch = "x86_64")]
const FORBIDDEN_OF_THIS_ARCHITECTURE: &[c_long] = &[
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_futimesat,
    libc::SYS_inotify_init,
    libc::SYS_iopl,
    libc::SYS_ioperm,
];

#[cfg(not(target_arch = "x86_64"))]
const FORBIDDEN_OF_THIS_ARCHITECTURE: &[c_long] = &[];

/// Calls that make files other than plain ones.
const SPECIALS: &[c_long] = &[libc::SYS_symlinkat, libc::SYS_linkat, libc::SYS_mknodat];

#[cfg(target_arch = "x86_64")]
const SPECIALS_OF_THIS_ARCHITECTURE: &[c_long] = &[libc::SYS_symlink, libc::SYS_link, libc::SYS_mknod];

#[cfg(not(target_arch = "x86_64"))]
const SPECIALS_OF_THIS_ARCHITECTURE: &[c_long] = &[];

/// Calls that start a process, besides clone.
#[cfg(target_arch = "x86_64")]
const PROCESSES_OF_THIS_ARCHITECTURE: &[c_long] = &[libc::SYS_fork, libc::SYS_vfork];

#[cfg(not(target_arch = "x86_64"))]
const PROCESSES_OF_THIS_ARCHITECTURE: &[c_long] = &[];

const KNOWN: &[c_long] = &[
    // files
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_preadv,
    libc::SYS_pwritev,
    libc::SYS_preadv2,
    libc::SYS_pwritev2,
    libc::SYS_lseek,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_statfs,
    libc::SYS_fstatfs,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_readlinkat,
    libc::SYS_getdents64,
    libc::SYS_getcwd,
    libc::SYS_chdir,
    libc::SYS_fchdir,
    libc::SYS_umask,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_truncate,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_fadvise64,
    libc::SYS_readahead,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_sync,
    libc::SYS_syncfs,
    libc::SYS_sync_file_range,
    libc::SYS_mkdirat,
    libc::SYS_unlinkat,
    libc::SYS_linkat,
    libc::SYS_symlinkat,
    libc::SYS_copy_file_range,
    libc::SYS_sendfile,
    libc::SYS_getxattr,
    libc::SYS_lgetxattr,
    libc::SYS_fgetxattr,
    libc::SYS_listxattr,
    libc::SYS_llistxattr,
    libc::SYS_flistxattr,
    // memory
    libc::SYS_brk,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_msync,
    libc::SYS_mincore,
    libc::SYS_mlock,
    libc::SYS_mlock2,
    libc::SYS_munlock,
    libc::SYS_mlockall,
    libc::SYS_munlockall,
    libc::SYS_membarrier,
    libc::SYS_get_mempolicy,
    libc::SYS_pkey_alloc,
    libc::SYS_pkey_free,
    libc::SYS_pkey_mprotect,
    // processes and threads
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_wait4,
    libc::SYS_waitid,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_gettid,
    libc::SYS_getpgid,
    libc::SYS_setpgid,
    libc::SYS_getsid,
    libc::SYS_setsid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_getresuid,
    libc::SYS_getresgid,
    libc::SYS_getgroups,
    libc::SYS_capget,
    libc::SYS_prctl,
    libc::SYS_personality,
    libc::SYS_getrlimit,
    libc::SYS_getrusage,
    libc::SYS_getpriority,
    libc::SYS_set_tid_address,
    libc::SYS_set_robust_list,
    libc::SYS_get_robust_list,
    libc::SYS_rseq,
    libc::SYS_futex,
    libc::SYS_pidfd_open,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_getparam,
    libc::SYS_sched_getscheduler,
    libc::SYS_sched_getattr,
    libc::SYS_sched_get_priority_max,
    libc::SYS_sched_get_priority_min,
    libc::SYS_sched_rr_get_interval,
    libc::SYS_getcpu,
    // signals
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_tgkill,
    libc::SYS_pidfd_send_signal,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigpending,
    libc::SYS_rt_sigsuspend,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    // time
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_times,
    libc::SYS_timer_create,
    libc::SYS_timer_settime,
    libc::SYS_timer_gettime,
    libc::SYS_timer_getoverrun,
    libc::SYS_timer_delete,
    libc::SYS_getitimer,
    libc::SYS_setitimer,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_settime,
    libc::SYS_timerfd_gettime,
    // waiting
    libc::SYS_pipe2,
    libc::SYS_eventfd2,
    libc::SYS_signalfd4,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    // connected pairs, and what was handed over
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_shutdown,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    // the rest
    libc::SYS_uname,
    libc::SYS_sysinfo,
    libc::SYS_getrandom,
    libc::SYS_landlock_create_ruleset,
    libc::SYS_landlock_add_rule,
    libc::SYS_landlock_restrict_self,
    libc::SYS_seccomp, // for the second filter, which forbids it
];

#[cfg(target_arch = "x86_64")]
const OF_THIS_ARCHITECTURE: &[c_long] = &[
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_readlink,
    libc::SYS_getdents,
    libc::SYS_dup2,
    libc::SYS_rename,
    libc::SYS_renameat,
    libc::SYS_mkdir,
    libc::SYS_rmdir,
    libc::SYS_link,
    libc::SYS_unlink,
    libc::SYS_symlink,
    libc::SYS_fork,
    libc::SYS_vfork,
    libc::SYS_getpgrp,
    libc::SYS_arch_prctl,
    libc::SYS_alarm,
    libc::SYS_pause,
    libc::SYS_time,
    libc::SYS_pipe,
    libc::SYS_eventfd,
    libc::SYS_signalfd,
    libc::SYS_poll,
    libc::SYS_select,
    libc::SYS_epoll_create,
    libc::SYS_epoll_wait,
];

#[cfg(not(target_arch = "x86_64"))]
const OF_THIS_ARCHITECTURE: &[c_long] = &[];
