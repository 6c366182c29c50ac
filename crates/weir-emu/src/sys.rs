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

/// Nanoseconds of the clock that a start names.
pub fn now_ns(clock: weir_protocol::Clock) -> u64 {
    match clock {
        weir_protocol::Clock::Monotonic => monotonic_ns(),
        weir_protocol::Clock::Realtime => clock_ns(libc::CLOCK_REALTIME),
    }
}

/// Nanoseconds of processor time that this thread has used.
pub fn thread_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Nanoseconds of `CLOCK_REALTIME`, which stamps of packets have, less those of `CLOCK_MONOTONIC`.
pub fn realtime_offset_ns() -> i64 {
    const TRIES: usize = 3;
    let measure = |_| {
        let (before, real, after) = (monotonic_ns(), clock_ns(libc::CLOCK_REALTIME), monotonic_ns());
        (after - before, real as i64 - (before + (after - before) / 2) as i64)
    };
    (0..TRIES).map(measure).min().map_or(0, |(_, offset_ns)| offset_ns)
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

/// The shortest of calls.
pub fn do_nothing() {
    // SAFETY: the call has no arguments.
    unsafe { libc::getppid() };
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
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: the kernel's sched_param is this one int; 0 is the calling thread. Threads made from it are ordinary again.
    // The system call itself, because musl's function does nothing.
    let result = unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const priority) };
    check(result as libc::c_int).map(drop)
}

/// Reads a frame; none when there is none now.
pub fn read(fd: RawFd, into: &mut [u8]) -> io::Result<Option<usize>> {
    // SAFETY: the kernel writes at most `into.len()` bytes there.
    would_block(check_len(unsafe { libc::read(fd, into.as_mut_ptr().cast(), into.len()) }))
}

/// Reads a frame of a packet socket, and the kernel's stamp on it in nanoseconds of `CLOCK_REALTIME`.
pub fn receive(fd: RawFd, into: &mut [u8]) -> io::Result<Option<(usize, Option<u64>)>> {
    /// Words of control messages: one with a timespec, and more than it needs.
    const CONTROL: usize = 16;
    let mut control = [0_u64; CONTROL];
    let mut part = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    // SAFETY: a msghdr of zeros is valid.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = mem::size_of_val(&control) as _;
    // SAFETY: the kernel writes at most `into.len()` bytes there, and control messages of at most the length given.
    let len = would_block(check_len(unsafe { libc::recvmsg(fd, &raw mut message, 0) }))?;
    Ok(len.map(|len| (len, stamp_of(&message))))
}

fn stamp_of(message: &libc::msghdr) -> Option<u64> {
    // SAFETY: the kernel filled in the control messages of `message`, which are still there.
    let header = unsafe { libc::CMSG_FIRSTHDR(&raw const *message).as_ref() }?;
    if (header.cmsg_level, header.cmsg_type) != (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS) {
        return None;
    }
    // SAFETY: such a message holds a timespec, at no particular alignment.
    let time = unsafe { libc::CMSG_DATA(&raw const *header).cast::<libc::timespec>().read_unaligned() };
    Some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
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
    ask_interface(&socket, libc::SIOCGIFFLAGS, &mut request)?;
    // SAFETY: the call above filled in the flags.
    let flags = libc::c_int::from(unsafe { request.ifr_ifru.ifru_flags });
    if flags & libc::IFF_UP == 0 {
        return Ok(InterfaceState::Down);
    }
    if flags & libc::IFF_RUNNING == 0 {
        return Ok(InterfaceState::Coming);
    }
    // The flag is set just before the queue is switched on, under a lock that changing the length of the queue takes.
    // The length stays what it is.
    ask_interface(&socket, libc::SIOCGIFTXQLEN, &mut request)?;
    ask_interface(&socket, libc::SIOCSIFTXQLEN, &mut request)?;
    Ok(InterfaceState::Running)
}

/// One of the requests of netdevice(7), as a plain system call: the type of their codes differs between C libraries.
fn ask_interface(socket: &impl AsRawFd, code: libc::c_ulong, request: &mut libc::ifreq) -> io::Result<()> {
    // SAFETY: these requests read and write one ifreq.
    let result = unsafe { libc::syscall(libc::SYS_ioctl, socket.as_raw_fd(), code, &raw mut *request) };
    check(result as libc::c_int).map(drop)
}

/// A packet socket on an interface: frames with Ethernet and virtio headers, those that arrive only, with their instant.
pub fn packet_socket(device: &str, buffer_bytes: libc::c_int) -> io::Result<OwnedFd> {
    let socket = unbound_packet_socket(libc::SOCK_RAW)?;
    let fd = socket.as_raw_fd();
    set_option(fd, libc::SOL_PACKET, libc::PACKET_VNET_HDR, 1)?;
    set_option(fd, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1)?;
    set_option(fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, buffer_bytes)?;
    set_option(fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, buffer_bytes)?;
    set_option(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
    let index = bind_packet_socket(fd, device)?;
    set_promiscuous(fd, index)?;
    Ok(socket)
}

/// A packet socket with a ring of `slots` in version 2 of its format, which shows the first `head_bytes` of each packet
/// that leaves by an interface, from its IP header on.
pub fn packet_ring(device: &str, head_bytes: u32, slot_bytes: usize, slots: usize) -> io::Result<OwnedFd> {
    const BLOCK_BYTES: usize = 64 * 1024;
    let socket = unbound_packet_socket(libc::SOCK_DGRAM)?;
    let fd = socket.as_raw_fd();
    set_option(fd, libc::SOL_PACKET, libc::PACKET_VERSION, libc::tpacket_versions::TPACKET_V2 as libc::c_int)?;
    let block_bytes = BLOCK_BYTES.min(slot_bytes * slots);
    let request = libc::tpacket_req {
        tp_block_size: block_bytes as libc::c_uint,
        tp_block_nr: (slot_bytes * slots / block_bytes) as libc::c_uint,
        tp_frame_size: slot_bytes as libc::c_uint,
        tp_frame_nr: slots as libc::c_uint,
    };
    set_struct(fd, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
    show_outgoing(fd, head_bytes)?;
    bind_packet_socket(fd, device)?;
    Ok(socket)
}

/// A classic BPF program (`Documentation/networking/filter.rst` of Linux): `head_bytes` of what is outgoing, else nothing.
fn show_outgoing(fd: RawFd, head_bytes: u32) -> io::Result<()> {
    let packet_type = (libc::SKF_AD_OFF + libc::SKF_AD_PKTTYPE) as u32;
    let outgoing = u32::from(libc::PACKET_OUTGOING);
    let line = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let mut program = [
        line(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, 0, 0, packet_type),
        line(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, outgoing),
        line(libc::BPF_RET | libc::BPF_K, 0, 0, head_bytes),
        line(libc::BPF_RET | libc::BPF_K, 0, 0, 0),
    ];
    let filter = libc::sock_fprog { len: program.len() as libc::c_ushort, filter: program.as_mut_ptr() };
    set_struct(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &filter)
}

/// Receives nothing until it is bound.
fn unbound_packet_socket(kind: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: no pointers.
    let fd = check(unsafe { libc::socket(libc::AF_PACKET, kind | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: the descriptor is new and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Binds a packet socket to an interface, for all protocols; the index of the interface.
fn bind_packet_socket(fd: RawFd, device: &str) -> io::Result<libc::c_uint> {
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
    Ok(index)
}

fn set_promiscuous(fd: RawFd, index: libc::c_uint) -> io::Result<()> {
    // SAFETY: a packet_mreq of zeros is valid.
    let mut membership: libc::packet_mreq = unsafe { mem::zeroed() };
    membership.mr_ifindex = index as libc::c_int;
    membership.mr_type = libc::PACKET_MR_PROMISC as libc::c_ushort;
    set_struct(fd, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &membership)
}

fn set_option(fd: RawFd, level: libc::c_int, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    set_struct(fd, level, option, &value)
}

/// `value` must be of the type that the option has.
fn set_struct<T>(fd: RawFd, level: libc::c_int, option: libc::c_int, value: &T) -> io::Result<()> {
    let (pointer, bytes) = ((&raw const *value).cast(), mem::size_of_val(value) as libc::socklen_t);
    // SAFETY: the kernel reads a value of that size.
    check(unsafe { libc::setsockopt(fd, level, option, pointer, bytes) }).map(drop)
}

/// Makes reads and writes return at once.
pub fn set_nonblocking(fd: RawFd) -> io::Result<()> {
    // SAFETY: no pointers.
    let flags = check(unsafe { libc::fcntl(fd, libc::F_GETFL) })?;
    // SAFETY: no pointers.
    check(unsafe { libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK) }).map(drop)
}

/// Memory that is shared with the kernel.
pub struct Mapping {
    begin: std::ptr::NonNull<libc::c_void>,
    bytes: usize,
}

impl Mapping {
    /// The first `bytes` of what `fd` shares.
    pub fn new(fd: RawFd, bytes: usize) -> io::Result<Mapping> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let begin = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, libc::MAP_SHARED, fd, 0) };
        if begin == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let begin = std::ptr::NonNull::new(begin).ok_or_else(|| io::Error::other("mapped at address 0"))?;
        Ok(Mapping { begin, bytes })
    }

    /// The byte at `offset`.
    ///
    /// # Panics
    /// When it is outside.
    pub fn at(&self, offset: usize) -> *mut libc::c_void {
        assert!(offset < self.bytes, "within the mapping");
        // SAFETY: just checked.
        unsafe { self.begin.as_ptr().byte_add(offset) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nothing refers to it any more.
        unsafe { libc::munmap(self.begin.as_ptr(), self.bytes) };
    }
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
