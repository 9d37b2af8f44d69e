//! Settings of the system's allocator.

/// Lets glibc keep one arena. By default it keeps one for each of many threads, and what a crowd of requests leaves free
/// in each of them is given back to the system late or never: 200 clients left 165 MB behind where one arena leaves 78.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn keep_small() {
    // SAFETY: mallopt only changes a setting of the allocator, takes no pointers, and may be called at any time.
    unsafe { nix::libc::mallopt(nix::libc::M_ARENA_MAX, 1) };
}

/// Does nothing where the allocator is another.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn keep_small() {}
