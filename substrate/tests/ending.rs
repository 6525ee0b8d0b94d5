//! The end of processes, and of their blocking work.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use substrate::world::{Options, World, simulate};
use substrate::{Level, Process};

#[test]
fn blocking_work_gives_its_outcome_to_a_process_that_lives_and_to_no_other() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let world = World::live(Options::default());
        let (done, steps) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let (reported, worked) = (done.clone(), steps.clone());
        let process = Process::start(&world, "worker", move |ctx| {
            let (reported, worked) = (reported.clone(), worked.clone());
            async move {
                assert_eq!(ctx.blocking(|| 1 + 1).await, 2);
                let own = ctx.clone();
                ctx.blocking(move || {
                    while !own.is_down() {
                        worked.fetch_add(1, Ordering::SeqCst);
                        std::thread::sleep(Duration::from_millis(1));
                    }
                })
                .await;
                reported.fetch_add(1, Ordering::SeqCst);
            }
        });
        while steps.load(Ordering::SeqCst) == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        process.crash();
        let so_far = steps.load(Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(100)).await;
        // A step may have begun before the crash.
        assert!(steps.load(Ordering::SeqCst) <= so_far + 1);
        assert_eq!(done.load(Ordering::SeqCst), 0);
    });
    let took = simulate(Options::default(), async |world| {
        let process = Process::start(&world, "worker", |_| std::future::pending());
        let ctx = process.ctx().unwrap();
        ctx.blocking(|| std::thread::sleep(Duration::from_millis(5))).await;
        ctx.now().mono
    });
    assert_eq!(took, Duration::ZERO, "it takes no virtual time");
}

#[test]
fn an_ended_process_does_nothing_any_more_and_has_not_crashed() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    runtime.block_on(async {
        let world = World::live(Options { level: Level::Trace, ..Options::default() });
        let steps = Arc::new(AtomicU32::new(0));
        let counted = steps.clone();
        let process = Process::start(&world, "busy", move |ctx| {
            for _ in 0..8 {
                let counted = counted.clone();
                ctx.spawn(async move {
                    loop {
                        // Long steps, so that one is running when the process is asked to end.
                        std::thread::sleep(Duration::from_millis(5));
                        counted.fetch_add(1, Ordering::SeqCst);
                        tokio::task::yield_now().await;
                    }
                });
            }
            std::future::pending()
        });
        while steps.load(Ordering::SeqCst) < 8 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        process.end().await;
        let at_the_end = steps.load(Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(steps.load(Ordering::SeqCst), at_the_end);
        assert!(process.ctx().is_none());
        assert!(!world.trace().tail(100).iter().any(|line| line.contains("crashed")));
    });
    simulate(Options::default(), async |world| {
        let process = Process::start(&world, "idle", |_| std::future::pending());
        process.end().await;
        assert!(process.ctx().is_none());
    });
}
