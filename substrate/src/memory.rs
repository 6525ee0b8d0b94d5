//! Memory that a server gives back when a load is over.
//!
//! The C library keeps what was freed below the newest block that is still in use; after a load that is most of it.

use std::time::Duration;

use crate::Ctx;

/// How long nobody asks anything before memory is given back.
const QUIET: Duration = Duration::from_secs(2);
/// After how many of these it is given back all the same, where somebody always asks something.
const BUSY: u32 = 30;

/// Gives memory back once after each load, and once in a while during it, for ever, within process `ctx`. `activity`
/// counts what may have freed something.
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

/// Gives the system what is free.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn give_back() {
    #[expect(unsafe_code, reason = "the C library has no other door to this")]
    // SAFETY: malloc_trim has no preconditions and changes nothing that a program can see of its memory; its signature is
    // that of malloc_trim(3).
    unsafe {
        unsafe extern "C" {
            fn malloc_trim(pad: usize) -> std::ffi::c_int;
        }
        malloc_trim(0);
    }
}

/// Other C libraries give back what is free by themselves, or cannot.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn give_back() {}
