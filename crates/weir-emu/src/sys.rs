//! The system calls that the standard library does not have, each behind a safe function.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Nanoseconds of `CLOCK_MONOTONIC`.
pub fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// Nanoseconds of processor time that this thread has used.
pub fn thread_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec, and both clocks always exist.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn check_len(result: libc::ssize_t) -> io::Result<usize> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as usize) }
}

/// Moves this thread into the network namespace of `file`.
pub fn enter_netns(file: &File) -> io::Result<()> {
    // SAFETY: the call takes a descriptor and a flag; other threads are not concerned.
    check(unsafe { libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) }).map(drop)
}

/// Lets timers of this thread expire without slack.
pub fn no_timer_slack() {
    // SAFETY: the option takes one integer and touches no memory.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1, 0, 0, 0) };
}

/// Leaves interrupts from the terminal to whoever started this process: it ends it by closing standard input.
pub fn ignore_interrupts() {
    // SAFETY: ignoring a signal installs no handler.
    unsafe { libc::signal(libc::SIGINT, libc::SIG_IGN) };
}

/// Argument of `sched_setattr(2)`, first version.
#[repr(C)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// Has this thread scheduled by deadline: `runtime_ns` in every `period_ns`, before all but the kernel's own.
pub fn set_deadline(runtime_ns: u64, period_ns: u64) -> io::Result<()> {
    let attributes = SchedAttr {
        size: mem::size_of::<SchedAttr>() as u32,
        policy: libc::SCHED_DEADLINE as u32,
        flags: libc::SCHED_FLAG_RESET_ON_FORK as u64,
        nice: 0,
        priority: 0,
        runtime: runtime_ns,
        deadline: period_ns,
        period: period_ns,
    };
    // SAFETY: the kernel reads `size` bytes; 0 is the calling thread. Threads made from it are ordinary again.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    check(result as libc::c_int).map(drop)
}

/// Puts this thread before all ordinary ones.
pub fn set_fifo(priority: i32) -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: the kernel reads one sched_param; 0 is the calling thread. Threads made from it are ordinary again.
    check(unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &raw const parameters) })
        .map(drop)
}

/// Reads a frame; none when there is none now.
pub fn read(fd: RawFd, into: &mut [u8]) -> io::Result<Option<usize>> {
    // SAFETY: the kernel writes at most `into.len()` bytes there.
    would_block(check_len(unsafe { libc::read(fd, into.as_mut_ptr().cast(), into.len()) }))
}

/// Writes a frame from two parts; none when there is no room now.
pub fn write(fd: RawFd, headers: &[u8], payload: &[u8]) -> io::Result<Option<usize>> {
    let part = |bytes: &[u8]| libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let parts = [part(headers), part(payload)];
    let count = if payload.is_empty() { 1 } else { 2 };
    // SAFETY: both parts are live slices of the lengths given, which the kernel only reads.
    would_block(check_len(unsafe { libc::writev(fd, parts.as_ptr(), count) }))
}

fn would_block(result: io::Result<usize>) -> io::Result<Option<usize>> {
    match result {
        Ok(len) => Ok(Some(len)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

fn request(device: &str) -> io::Result<libc::ifreq> {
    let name = CString::new(device).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let bytes = name.as_bytes_with_nul();
    if bytes.len() > libc::IFNAMSIZ {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the name of an interface has at most 15 characters"));
    }
    // SAFETY: an ifreq of zeros is valid.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    for (to, &from) in request.ifr_name.iter_mut().zip(bytes) {
        *to = from as libc::c_char;
    }
    Ok(request)
}

/// Attaches the open clone device to the TUN device of that name, with virtio headers and without packet information.
pub fn attach_tun(file: &File, device: &str) -> io::Result<()> {
    let mut request = request(device)?;
    request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as libc::c_short;
    // SAFETY: TUNSETIFF reads and writes one ifreq.
    check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) }).map(drop)
}

/// Says which offloads the reader of a TUN device takes.
pub fn set_tun_offloads(file: &File, offloads: libc::c_uint) -> io::Result<()> {
    // SAFETY: TUNSETOFFLOAD takes an integer.
    check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETOFFLOAD, libc::c_ulong::from(offloads)) }).map(drop)
}

/// Bytes of the header before each frame of a TUN device.
pub fn set_vnet_header(file: &File, bytes: libc::c_int) -> io::Result<()> {
    // SAFETY: TUNSETVNETHDRSZ reads one int.
    check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETVNETHDRSZ, &raw const bytes) }).map(drop)
}

/// State of an interface of this thread's network namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterfaceState {
    /// Nobody has set it up.
    Down,
    /// It is up but passes nothing yet.
    Coming,
    /// It passes packets.
    Running,
}

/// The state of an interface.
pub fn interface_state(device: &str) -> io::Result<InterfaceState> {
    let socket = std::net::UdpSocket::bind(("127.0.0.1", 0)).or_else(|_| std::net::UdpSocket::bind(("::1", 0)))?;
    let mut request = request(device)?;
    // SAFETY: SIOCGIFFLAGS reads and writes one ifreq.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFFLAGS, &raw mut request) })?;
    // SAFETY: the call above filled in the flags.
    let flags = libc::c_int::from(unsafe { request.ifr_ifru.ifru_flags });
    if flags & libc::IFF_UP == 0 {
        return Ok(InterfaceState::Down);
    }
    if flags & libc::IFF_RUNNING == 0 {
        return Ok(InterfaceState::Coming);
    }
    // The flag is set just before the queue is switched on, under a lock that changing the length of the queue takes.
    // SAFETY: SIOCGIFTXQLEN and SIOCSIFTXQLEN read and write one ifreq; the length stays what it is.
    unsafe {
        check(libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFTXQLEN, &raw mut request))?;
        check(libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFTXQLEN, &raw mut request))?;
    }
    Ok(InterfaceState::Running)
}

/// A packet socket on an interface: frames with Ethernet and virtio headers, those that arrive only.
pub fn packet_socket(device: &str, buffer_bytes: libc::c_int) -> io::Result<OwnedFd> {
    let flags = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: no pointers; protocol 0 receives nothing until the socket is bound.
    let fd = check(unsafe { libc::socket(libc::AF_PACKET, flags, 0) })?;
    // SAFETY: the descriptor is new and nobody else's.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    set_option(fd, libc::SOL_PACKET, libc::PACKET_VNET_HDR, 1)?;
    set_option(fd, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1)?;
    set_option(fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, buffer_bytes)?;
    set_option(fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, buffer_bytes)?;
    let name = CString::new(device).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    // SAFETY: a C string.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    if index == 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a sockaddr_ll of zeros is valid.
    let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
    address.sll_family = libc::AF_PACKET as libc::c_ushort;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = index as libc::c_int;
    let (pointer, bytes) = ((&raw const address).cast(), mem::size_of_val(&address) as libc::socklen_t);
    // SAFETY: the kernel reads a sockaddr_ll of that size.
    check(unsafe { libc::bind(fd, pointer, bytes) })?;
    set_promiscuous(fd, index)?;
    Ok(socket)
}

fn set_promiscuous(fd: RawFd, index: libc::c_uint) -> io::Result<()> {
    // SAFETY: a packet_mreq of zeros is valid.
    let mut membership: libc::packet_mreq = unsafe { mem::zeroed() };
    membership.mr_ifindex = index as libc::c_int;
    membership.mr_type = libc::PACKET_MR_PROMISC as libc::c_ushort;
    let (pointer, bytes) = ((&raw const membership).cast(), mem::size_of_val(&membership) as libc::socklen_t);
    // SAFETY: the kernel reads a packet_mreq of that size.
    check(unsafe { libc::setsockopt(fd, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, pointer, bytes) }).map(drop)
}

fn set_option(fd: RawFd, level: libc::c_int, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    let (pointer, bytes) = ((&raw const value).cast(), mem::size_of_val(&value) as libc::socklen_t);
    // SAFETY: the kernel reads one int.
    check(unsafe { libc::setsockopt(fd, level, option, pointer, bytes) }).map(drop)
}

/// Makes reads and writes return at once.
pub fn set_nonblocking(fd: RawFd) -> io::Result<()> {
    // SAFETY: no pointers.
    let flags = check(unsafe { libc::fcntl(fd, libc::F_GETFL) })?;
    // SAFETY: no pointers.
    check(unsafe { libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK) }).map(drop)
}

/// A counter that wakes whoever polls it.
pub fn event_fd() -> io::Result<OwnedFd> {
    // SAFETY: no pointers; the descriptor is new.
    let fd = check(unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) })?;
    // SAFETY: as above.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// What to poll, by token.
pub struct Poller {
    epoll: OwnedFd,
    events: Vec<libc::epoll_event>,
}

impl Poller {
    /// Polls nothing yet; at most `most` tokens are told at a time.
    pub fn new(most: usize) -> io::Result<Poller> {
        // SAFETY: no pointers; the descriptor is new.
        let fd = check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: as above.
        let epoll = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Poller { epoll, events: vec![libc::epoll_event { events: 0, u64: 0 }; most] })
    }

    /// Tells `token` whenever something new can be read from `fd` (edge-triggered).
    pub fn add(&self, fd: RawFd, token: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events: (libc::EPOLLIN | libc::EPOLLET) as u32, u64: token };
        // SAFETY: the kernel reads one event.
        check(unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &raw mut event) }).map(drop)
    }

    /// Waits at most `timeout_ns` and tells the tokens that have something new.
    pub fn wait(&mut self, timeout_ns: u64, mut tell: impl FnMut(u64)) -> io::Result<()> {
        let timeout = libc::timespec {
            tv_sec: (timeout_ns / 1_000_000_000) as libc::time_t,
            tv_nsec: (timeout_ns % 1_000_000_000) as libc::c_long,
        };
        let most = self.events.len() as libc::c_int;
        // SAFETY: the kernel writes at most `most` events and reads one timespec; no signal mask is given.
        let result = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.epoll.as_raw_fd(),
                self.events.as_mut_ptr(),
                most,
                &raw const timeout,
                std::ptr::null::<libc::sigset_t>(),
                0_usize,
            )
        };
        match check_len(result as libc::ssize_t) {
            Ok(count) => self.events[..count].iter().for_each(|event| tell(event.u64)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}
