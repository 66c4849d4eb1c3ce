//! The C library's own functions, behind those that stand before them.

use std::ffi::{c_char, c_int, c_long, c_void};
use std::sync::OnceLock;

/// The library's own functions.
pub struct Library {
    // SAFETY: as the library's.
    pub syscall: unsafe extern "C" fn(c_long, usize, usize, usize, usize, usize, usize) -> c_long,
    // SAFETY: as the library's.
    pub clock_gettime: unsafe extern "C" fn(libc::clockid_t, *mut libc::timespec) -> c_int,
    // SAFETY: as the library's.
    pub nanosleep: unsafe extern "C" fn(*const libc::timespec, *mut libc::timespec) -> c_int,
    // SAFETY: as the library's.
    pub sched_yield: unsafe extern "C" fn() -> c_int,
    // SAFETY: as the library's.
    pub getrandom: unsafe extern "C" fn(*mut c_void, usize, u32) -> isize,
    // SAFETY: as the library's.
    pub sched_getaffinity: unsafe extern "C" fn(libc::pid_t, usize, *mut libc::cpu_set_t) -> c_int,
    // SAFETY: as the library's.
    pub open64: unsafe extern "C" fn(*const c_char, c_int, libc::mode_t) -> c_int,
    // SAFETY: as the library's.
    pub mmap64: unsafe extern "C" fn(*mut c_void, usize, c_int, c_int, c_int, libc::off64_t) -> *mut c_void,
    // SAFETY: as the library's.
    pub pthread_create:
        unsafe extern "C" fn(*mut libc::pthread_t, *const libc::pthread_attr_t, Start, *mut c_void) -> c_int,
    // SAFETY: as the library's.
    pub pthread_attr_getguardsize: unsafe extern "C" fn(*const libc::pthread_attr_t, *mut usize) -> c_int,
    // SAFETY: as the library's.
    pub pthread_join: unsafe extern "C" fn(libc::pthread_t, *mut *mut c_void) -> c_int,
}

pub type Start = extern "C" fn(*mut c_void) -> *mut c_void;

pub fn library() -> &'static Library {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    if let Some(library) = LIBRARY.get() {
        return library;
    }
    fn find(name: &'static std::ffi::CStr) -> *mut c_void {
        // SAFETY: a name that ends with zero; the handle asks for the next definition after the program's.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr().cast::<c_char>()) };
        assert!(!found.is_null(), "the C library has {name:?}");
        found
    }
    // SAFETY: `address` is that of a function of type `F`, which is a pointer to it; the caller sees to both.
    unsafe fn function<F: Copy>(address: *mut c_void) -> F {
        assert_eq!(size_of::<F>(), size_of::<*mut c_void>());
        // SAFETY: as above, and both have one size.
        unsafe { std::mem::transmute_copy(&address) }
    }
    // SAFETY: each address is that of the function of this name, whose type POSIX or Linux says.
    let found = unsafe {
        Library {
            syscall: function(find(c"syscall")),
            clock_gettime: function(find(c"clock_gettime")),
            nanosleep: function(find(c"nanosleep")),
            sched_yield: function(find(c"sched_yield")),
            getrandom: function(find(c"getrandom")),
            sched_getaffinity: function(find(c"sched_getaffinity")),
            mmap64: function(find(c"mmap64")),
            open64: function(find(c"open64")),
            pthread_create: function(find(c"pthread_create")),
            pthread_attr_getguardsize: function(find(c"pthread_attr_getguardsize")),
            pthread_join: function(find(c"pthread_join")),
        }
    };
    LIBRARY.get_or_init(|| found)
}

/// `syscall(2)`, of the system itself.
pub fn real_syscall(number: c_long, arguments: [usize; 6]) -> c_long {
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: the arguments are the caller's, and nothing here reads them.
    unsafe { (library().syscall)(number, a, b, c, d, e, f) }
}

/// Waits until a thread has ended for the system too.
pub fn gone(thread: i32) {
    // SAFETY: it takes nothing.
    let process = unsafe { libc::getpid() };
    while real_syscall(libc::SYS_tgkill, [process as usize, thread as usize, 0, 0, 0, 0]) == 0 {
        // SAFETY: it takes nothing.
        unsafe { (library().sched_yield)() };
    }
}
