//! Memory that the program gives back when a load is over.
//!
//! The C library keeps what was freed below the newest block that is still in use; after a load that is most of it.

use std::time::Duration;

use substrate::Ctx;

use crate::Regions;

/// How long nobody asks anything before memory is given back.
const QUIET: Duration = Duration::from_secs(2);

/// Gives memory back once after each load, for ever, within process `ctx`.
pub(super) async fn tidy(ctx: Ctx, regions: Regions) {
    let (mut known, mut tidied) = (0, 0);
    loop {
        tokio::time::sleep(QUIET).await;
        let requests = regions.requests();
        if requests == known && tidied != known {
            tidied = known;
            ctx.blocking(give_back).await;
        }
        known = requests;
    }
}

/// Gives the system what is free.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn give_back() {
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
fn give_back() {}
