//! The allocator of the `mooring` command and of the bench: a simulation is a single thread that makes and frees millions
//! of small strings, trees and futures.

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Its name.
pub fn name() -> &'static str {
    if cfg!(feature = "mimalloc") { "mimalloc" } else { "the system's" }
}

/// How often a thread of a server that stays up gives back what it has freed, at most.
#[cfg(feature = "mimalloc")]
const EVERY: std::time::Duration = std::time::Duration::from_secs(5);

/// Gives back what this thread has freed and what others have freed of its memory, now and then: for a thread that has
/// nothing to do. A thread that waits would keep it until it asks for memory of the same size again.
pub fn tidy() {
    #[cfg(feature = "mimalloc")]
    {
        use std::cell::Cell;
        use std::time::Instant;
        thread_local! {
            static NEXT: Cell<Option<Instant>> = const { Cell::new(None) };
        }
        let now = Instant::now();
        if NEXT.get().is_some_and(|next| now < next) {
            return;
        }
        NEXT.set(Some(now + EVERY));
        #[expect(unsafe_code, reason = "the allocator's crate has no other door to this")]
        // SAFETY: mi_collect has no preconditions, and changes nothing that a program can see of its memory.
        unsafe {
            libmimalloc_sys::mi_collect(true);
        }
    }
}
