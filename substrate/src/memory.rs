//! Memory that a server returns to the system after a load.
//!
//! The C library keeps memory that was freed below the highest block in use; after a load that is most of it.

use std::time::Duration;

use crate::Ctx;

/// Time without activity after which memory is returned.
const QUIET: Duration = Duration::from_secs(2);
/// Number of such intervals after which memory is returned in spite of activity.
const BUSY: u32 = 30;

/// Returns memory once after each load, and now and then during it, forever, within process `ctx`. `activity` counts
/// events that may have freed memory.
pub async fn tidy(ctx: Ctx, activity: impl Fn() -> u64 + Send) {
    let (mut known, mut tidied, mut waited) = (0, 0, 0);
    loop {
        tokio::time::sleep(QUIET).await;
        let seen = activity();
        if tidied != seen && (seen == known || waited >= BUSY) {
            (tidied, waited) = (seen, 0);
            ctx.blocking(give_back).await;
        }
        known = seen;
        waited += 1;
    }
}

/// Returns free memory to the system.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn give_back() {
    #[expect(unsafe_code, reason = "the C library has no other function for this")]
    // SAFETY: malloc_trim has no preconditions and changes nothing that a program can see of its memory; its signature
    // is that of malloc_trim(3).
    unsafe {
        unsafe extern "C" {
            fn malloc_trim(pad: usize) -> std::ffi::c_int;
        }
        malloc_trim(0);
    }
}

/// Does nothing: other C libraries return free memory by themselves, or cannot.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn give_back() {}
