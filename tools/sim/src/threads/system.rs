//! What the program asks of the C library, asked of the scheduler instead: the functions below stand before those of
//! the library, for every thread of a world; all others are handed on.
//!
//! `syscall` is how the standard library and `parking_lot` come to futexes; it takes a variable number of arguments,
//! which on the processors this is for lie where those of a function of seven do.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_long, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use super::gate::Gate;
use super::library::{Start, library, real_syscall};
use super::memory;
use super::scheduler::{self, in_world};

/// Cores that threads of a world are told of, so that it is the same world on every machine.
const CORES: usize = 2;
/// When virtual time began, in seconds since 1970.
const EPOCH: i64 = 1_750_000_000;
/// How often the library calls destructors of keys that set themselves again.
const DESTRUCTOR_ROUNDS: usize = 4;

fn fail(errno: c_int) -> c_long {
    // SAFETY: the calling thread's own.
    unsafe { *libc::__errno_location() = errno };
    -1
}

fn nanoseconds(time: &libc::timespec) -> u64 {
    (time.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64)
}

fn time_of(clock: libc::clockid_t, nanoseconds: u64) -> libc::timespec {
    let since = if clock == libc::CLOCK_REALTIME || clock == libc::CLOCK_REALTIME_COARSE { EPOCH } else { 1_000 };
    libc::timespec {
        tv_sec: since + (nanoseconds / 1_000_000_000) as i64,
        tv_nsec: (nanoseconds % 1_000_000_000) as c_long,
    }
}

/// Virtual time of an absolute one.
fn since_beginning(time: &libc::timespec, is_real_time: bool) -> u64 {
    let since = if is_real_time { EPOCH } else { 1_000 };
    let seconds = time.tv_sec.saturating_sub(since).max(0);
    nanoseconds(&libc::timespec { tv_sec: seconds, tv_nsec: time.tv_nsec })
}

/// `syscall(2)`.
///
/// # Safety
/// As the library's.
// SAFETY: the program's own definition comes before the library's, and has its type as far as callers can see.
#[unsafe(no_mangle)]
unsafe extern "C" fn syscall(number: c_long, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> c_long {
    if number != libc::SYS_futex || !in_world() {
        return real_syscall(number, [a, b, c, d, e, f]);
    }
    let flags = libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME;
    let operation = b as c_int & !flags;
    let is_real_time = b as c_int & libc::FUTEX_CLOCK_REALTIME != 0;
    match operation {
        libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET => {
            // SAFETY: the caller waits for a change of this word, so it is there, and changed by atomics only.
            let value = unsafe { AtomicU32::from_ptr(a as *mut u32) }.load(Ordering::SeqCst);
            if value != c as u32 {
                return fail(libc::EAGAIN);
            }
            // SAFETY: null, or the caller's time.
            let time = unsafe { (d as *const libc::timespec).as_ref() };
            let (bits, deadline) = match operation {
                libc::FUTEX_WAIT => {
                    (u32::MAX, time.map(|time| scheduler::look_at_clock().saturating_add(nanoseconds(time))))
                }
                _ => (f as u32, time.map(|time| since_beginning(time, is_real_time))),
            };
            if scheduler::wait(a, bits, deadline) { 0 } else { fail(libc::ETIMEDOUT) }
        }
        libc::FUTEX_WAKE => scheduler::wake(a, u32::MAX, c as i32 as usize) as c_long,
        libc::FUTEX_WAKE_BITSET => scheduler::wake(a, f as u32, c as i32 as usize) as c_long,
        other => unreachable!("nobody here asks for the futex operation {other}"),
    }
}

/// `clock_gettime(2)`.
///
/// # Safety
/// As the library's.
// SAFETY: as `syscall`.
#[unsafe(no_mangle)]
unsafe extern "C" fn clock_gettime(clock: libc::clockid_t, time: *mut libc::timespec) -> c_int {
    if !in_world() {
        // SAFETY: as the caller says.
        return unsafe { (library().clock_gettime)(clock, time) };
    }
    // SAFETY: the caller's memory.
    unsafe { *time = time_of(clock, scheduler::look_at_clock()) };
    0
}

/// `nanosleep(2)`.
///
/// # Safety
/// As the library's.
// SAFETY: as `syscall`.
#[unsafe(no_mangle)]
unsafe extern "C" fn nanosleep(time: *const libc::timespec, left: *mut libc::timespec) -> c_int {
    if !in_world() {
        // SAFETY: as the caller says.
        return unsafe { (library().nanosleep)(time, left) };
    }
    // SAFETY: the caller's memory.
    scheduler::sleep(nanoseconds(unsafe { &*time }));
    0
}

/// `clock_nanosleep(2)`; 0 or the error itself.
///
/// # Safety
/// As the library's.
// SAFETY: as `syscall`.
#[unsafe(no_mangle)]
unsafe extern "C" fn clock_nanosleep(
    clock: libc::clockid_t,
    flags: c_int,
    time: *const libc::timespec,
    left: *mut libc::timespec,
) -> c_int {
    if !in_world() {
        let arguments = [clock as usize, flags as usize, time as usize, left as usize, 0, 0];
        // SAFETY: the calling thread's own.
        let errno = || unsafe { *libc::__errno_location() };
        return if real_syscall(libc::SYS_clock_nanosleep, arguments) == 0 { 0 } else { errno() };
    }
    // SAFETY: the caller's memory.
    let time = unsafe { &*time };
    let nanoseconds = match flags & libc::TIMER_ABSTIME {
        0 => nanoseconds(time),
        _ => since_beginning(time, clock == libc::CLOCK_REALTIME).saturating_sub(scheduler::look_at_clock()),
    };
    scheduler::sleep(nanoseconds);
    0
}

/// `sched_yield(2)`.
///
/// # Safety
/// As the library's.
// SAFETY: as `syscall`.
#[unsafe(no_mangle)]
unsafe extern "C" fn sched_yield() -> c_int {
    if !in_world() {
        // SAFETY: it takes nothing.
        return unsafe { (library().sched_yield)() };
    }
    scheduler::yielded();
    0
}

/// `getrandom(2)`.
///
/// # Safety
/// As the library's.
// SAFETY: as `syscall`.
#[unsafe(no_mangle)]
unsafe extern "C" fn getrandom(buffer: *mut c_void, length: usize, flags: u32) -> isize {
    if !in_world() {
        // SAFETY: as the caller says.
        return unsafe { (library().getrandom)(buffer, length, flags) };
    }
    // SAFETY: the caller's memory, which it has written before or is about to.
    scheduler::fill_randomly(unsafe { std::slice::from_raw_parts_mut(buffer.cast::<u8>(), length) });
    length as isize
}

/// `sched_getaffinity(2)`: the first cores.
///
/// # Safety
/// As the library's.
// SAFETY: as `syscall`.
#[unsafe(no_mangle)]
unsafe extern "C" fn sched_getaffinity(process: libc::pid_t, bytes: usize, set: *mut libc::cpu_set_t) -> c_int {
    if !in_world() {
        // SAFETY: as the caller says.
        return unsafe { (library().sched_getaffinity)(process, bytes, set) };
    }
    // SAFETY: the caller's memory, of so many bytes.
    let set = unsafe { std::slice::from_raw_parts_mut(set.cast::<u8>(), bytes) };
    set.fill(0);
    set[0] = (1 << CORES) - 1;
    0
}

/// `mmap(2)`: what may lie anywhere lies where the seed says.
///
/// # Safety
/// As the library's.
// SAFETY: as `syscall`.
#[unsafe(no_mangle)]
unsafe extern "C" fn mmap64(
    address: *mut c_void,
    bytes: usize,
    access: c_int,
    flags: c_int,
    file: c_int,
    offset: libc::off64_t,
) -> *mut c_void {
    let (address, flags) = match in_world() && address.is_null() {
        true => (std::ptr::without_provenance_mut(memory::place_of_map(bytes)), flags | libc::MAP_FIXED_NOREPLACE),
        false => (address, flags),
    };
    // SAFETY: as the caller says; and where it lies is nobody's.
    unsafe { (library().mmap64)(address, bytes, access, flags, file, offset) }
}

/// The same by its other name.
///
/// # Safety
/// As the library's.
// SAFETY: as `syscall`.
#[unsafe(no_mangle)]
unsafe extern "C" fn mmap(
    address: *mut c_void,
    bytes: usize,
    access: c_int,
    flags: c_int,
    file: c_int,
    offset: libc::off_t,
) -> *mut c_void {
    // SAFETY: as the caller says.
    unsafe { mmap64(address, bytes, access, flags, file, offset) }
}

/// `open64(3)`: of the machine's cores and groups nobody is told more.
///
/// # Safety
/// As the library's.
// SAFETY: as `syscall`.
#[unsafe(no_mangle)]
unsafe extern "C" fn open64(path: *const c_char, flags: c_int, mode: libc::mode_t) -> c_int {
    // SAFETY: the caller's text.
    let tells = |path| unsafe { CStr::from_ptr(path) }.to_bytes().starts_with(b"/sys/");
    // SAFETY: as above.
    let counts = |path| unsafe { CStr::from_ptr(path) } == c"/proc/self/cgroup";
    if in_world() && (tells(path) || counts(path)) {
        return fail(libc::ENOENT) as c_int;
    }
    // SAFETY: as the caller says.
    unsafe { (library().open64)(path, flags, mode) }
}

/// What a new thread begins with.
struct Beginning {
    thread: usize,
    gate: &'static Gate,
    start: Start,
    argument: *mut c_void,
}

/// `pthread_create(3)`.
///
/// # Safety
/// As the library's.
// SAFETY: as `syscall`.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_create(
    handle: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    start: Start,
    argument: *mut c_void,
) -> c_int {
    if !in_world() {
        // SAFETY: as the caller says.
        return unsafe { (library().pthread_create)(handle, attributes, start, argument) };
    }
    // It is not let go before there is a thread.
    let (thread, beginning, error) = scheduler::interruption::held(|| {
        let gate = Gate::new();
        let thread = scheduler::register(gate);
        let beginning = Box::into_raw(Box::new(Beginning { thread, gate, start, argument }));
        // SAFETY: as the caller says, but for the beginning, which the new thread takes.
        let create = |attributes| unsafe { (library().pthread_create)(handle, attributes, begin, beginning.cast()) };
        (thread, beginning, with_stack(attributes, create))
    });
    // SAFETY: written by the library.
    let handle = (error == 0).then(|| unsafe { *handle });
    scheduler::started(thread, handle);
    if error != 0 {
        // SAFETY: nobody has taken it.
        drop(unsafe { Box::from_raw(beginning) });
    }
    scheduler::switch_point();
    error
}

/// Has a thread created with a stack that lies where the seed says; the error of that.
fn with_stack(
    attributes: *const libc::pthread_attr_t,
    create: impl FnOnce(*const libc::pthread_attr_t) -> c_int,
) -> c_int {
    let mut bytes = 0;
    if attributes.is_null() {
        return create(attributes);
    }
    // SAFETY: the caller's attributes.
    unsafe { libc::pthread_attr_getstacksize(attributes, &mut bytes) };
    let Some(stack) = memory::stack(bytes) else { return libc::EAGAIN };
    // SAFETY: bytes that the next line writes.
    let mut own: libc::pthread_attr_t = unsafe { std::mem::zeroed() };
    // SAFETY: our memory; and the stack is the thread's for ever.
    let error = unsafe {
        libc::pthread_attr_init(&mut own);
        libc::pthread_attr_setstack(&mut own, stack, bytes)
    };
    if error != 0 { error } else { create(&own) }
}

/// `pthread_attr_getguardsize(3)`: of stacks that are not the library's it knows of no guard, and the standard library
/// takes that for a fault.
///
/// # Safety
/// As the library's.
// SAFETY: as `syscall`.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_attr_getguardsize(attributes: *const libc::pthread_attr_t, bytes: *mut usize) -> c_int {
    // SAFETY: as the caller says.
    let error = unsafe { (library().pthread_attr_getguardsize)(attributes, bytes) };
    // SAFETY: the caller's memory, and written above.
    if error == 0 && in_world() && unsafe { *bytes } == 0 {
        // SAFETY: as above.
        unsafe { *bytes = memory::GUARD_BYTES };
    }
    error
}

extern "C" fn begin(argument: *mut c_void) -> *mut c_void {
    let beginning = argument.cast::<Beginning>();
    // SAFETY: left here by `pthread_create` for this thread alone.
    let Beginning { thread, gate, start, argument } = *unsafe { &*beginning };
    gate.belongs_to(real_syscall(libc::SYS_gettid, [0; 6]) as i32);
    scheduler::enter(thread, gate);
    // SAFETY: as above. Not before its turn: freeing memory is something that others notice.
    drop(unsafe { Box::from_raw(beginning) });
    let key = ending_key();
    // SAFETY: a key of ours; the value says only that there is one.
    unsafe { libc::pthread_setspecific(key, std::ptr::without_provenance(1)) };
    start(argument)
}

thread_local! {
    static ROUNDS: Cell<usize> = const { Cell::new(0) };
}

/// A key whose destructor is the last thing of ours that a thread does, after those of its thread locals.
fn ending_key() -> libc::pthread_key_t {
    static KEY: OnceLock<libc::pthread_key_t> = OnceLock::new();
    *KEY.get_or_init(|| {
        let mut key = 0;
        // SAFETY: our memory, and a function for ever.
        let error = unsafe { libc::pthread_key_create(&mut key, Some(end)) };
        assert_eq!(error, 0, "there is a key left");
        key
    })
}

extern "C" fn end(value: *mut c_void) {
    ROUNDS.set(ROUNDS.get() + 1);
    if ROUNDS.get() < DESTRUCTOR_ROUNDS {
        // SAFETY: a key of ours.
        unsafe { libc::pthread_setspecific(ending_key(), value) };
        return;
    }
    scheduler::leave(real_syscall(libc::SYS_gettid, [0; 6]) as i32);
}

/// `pthread_join(3)`.
///
/// # Safety
/// As the library's.
// SAFETY: as `syscall`.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_join(handle: libc::pthread_t, result: *mut *mut c_void) -> c_int {
    if in_world() {
        scheduler::await_end_of(handle);
    }
    // SAFETY: as the caller says.
    unsafe { (library().pthread_join)(handle, result) }
}

/// Sees to all that is to be there before there is a world of a seed.
///
/// # Errors
/// If memory cannot lie where the seed says.
pub fn prepare(seed: u64) -> Result<(), String> {
    library();
    ending_key();
    saki_base::seam::watch(scheduler::interruption::crosses);
    memory::lay_out(seed)
}

/// Whether this system is one whose library is stood in for.
pub fn is_supported() -> bool {
    cfg!(all(target_os = "linux", target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64")))
}
