//! The engine: links, processes and the delivery order, in virtual time.

#![expect(clippy::unwrap_used, reason = "a test ends where it goes wrong")]
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body as AxumBody;
use axum::routing::get;
use bytes::Bytes;
use futures_util::StreamExt;
use http::Request;
use http_body_util::{BodyExt, BodyStream};
use substrate::body::{Body, call, collect, empty, from_router};
use substrate::events::ProcessPanicked;
use substrate::fault::{Effect, Fault, Lease, Match, Plane, When};
use substrate::link::{Link, Streaming};
use substrate::world::{Options, Transport, World, simulate, simulate_and_leave};
use substrate::{Ctx, HttpService, Level, Process};

substrate::events! {
    /// The server has answered a slow request.
    pub struct ServerDone = "server.done" {}

    /// A process continues although one of its tasks panicked.
    pub struct HalfAlive = "half.alive" {}

    /// The client has its answer.
    pub struct ClientAnswered = "client.answered" {}

    /// A caller has its answer.
    pub struct Called = "called" {
        /// The answer.
        pub at: String,
    }

    /// A line of a stream arrived.
    pub struct Ticked = "ticked" {
        /// Its length.
        pub line: usize,
    }
}

fn clock_router(ctx: Ctx) -> Router {
    let (slow, ticks) = (ctx.clone(), ctx.clone());
    Router::new()
        .route("/", get(move || async move { format!("{}", ctx.now().mono.as_millis()) }))
        .route(
            "/slow",
            get(move || async move {
                slow.sleep(Duration::from_secs(1)).await;
                slow.emit(ServerDone {});
                "done"
            }),
        )
        .route(
            "/ticks",
            get(move || async move {
                let lines = futures_util::stream::unfold((ticks, 0), |(ctx, n)| async move {
                    ctx.sleep(Duration::from_millis(100)).await;
                    Some((Ok::<_, std::io::Error>(Bytes::from(format!("{n}\n"))), (ctx, n + 1)))
                });
                AxumBody::from_stream(lines)
            }),
        )
}

fn server(world: &World) -> Process {
    Process::start(world, "server", |ctx| async move {
        let service = from_router(clock_router(ctx.clone()));
        ctx.world().fabric().bind(&ctx, "server", service);
        std::future::pending::<()>().await;
    })
}

fn client_ctx(world: &World, name: &str) -> Ctx {
    Process::start(world, name, |_| std::future::pending()).ctx().unwrap()
}

async fn get_text(service: &HttpService, path: &str) -> Result<String, String> {
    let request = Request::get(path).body(empty()).unwrap();
    let response = call(service.clone(), request).await.map_err(|e| e.to_string())?;
    let bytes = collect(response.into_body(), 1 << 20).await.map_err(|e| e.to_string())?;
    Ok(String::from_utf8(bytes.to_vec()).unwrap())
}

/// Opens a stream of ticks and returns its lines.
async fn ticks(link: &HttpService) -> BodyStream<Body> {
    let mut request = Request::get("/ticks").body(empty()).unwrap();
    request.extensions_mut().insert(Streaming);
    BodyStream::new(call(link.clone(), request).await.unwrap().into_body())
}

fn partition(a: &str, b: &str) -> Fault {
    Fault {
        name: "cut".into(),
        matches: Match { plane: Plane::Link, op: None, attributes: Default::default() },
        when: When::default(),
        effect: Effect::Partition([a.into(), b.into()]),
        at: Default::default(),
        lease: Lease::default(),
    }
}

#[test]
fn a_call_takes_the_latency_of_both_ways() {
    simulate(Options::default(), async |world| {
        let _server = server(&world);
        let ctx = client_ctx(&world, "client");
        let link = Link::connect(&ctx, "server");
        tokio::time::sleep(Duration::from_millis(1)).await;
        let before = ctx.now().mono;
        let arrived: u64 = get_text(&link, "/").await.unwrap().parse().unwrap();
        let took = (ctx.now().mono - before).as_millis() as u64;
        let there = arrived - before.as_millis() as u64;
        assert!((1..=5).contains(&there) && (1..=5).contains(&(took - there)), "{there} of {took} ms");
    });
}

#[test]
fn a_server_that_is_down_refuses_and_answers_again_after_a_restart() {
    simulate(Options::default(), async |world| {
        let server = server(&world);
        let link = Link::connect(&client_ctx(&world, "client"), "server");
        server.crash();
        assert_eq!(get_text(&link, "/").await.unwrap_err(), "connection refused: nothing listens at server");
        server.restart();
        tokio::time::sleep(Duration::from_millis(1)).await;
        get_text(&link, "/").await.unwrap();
    });
}

#[test]
fn a_process_of_which_a_task_panics_ends_and_says_so() {
    simulate(Options::default(), async |world| {
        let process = Process::start(&world, "broken", |ctx| async move {
            ctx.spawn(async { panic!("at the disco") });
            ctx.sleep(Duration::from_secs(60)).await;
            ctx.emit(HalfAlive {});
        });
        tokio::time::sleep(Duration::from_secs(120)).await;
        assert!(process.ctx().is_none(), "it is down");
        let events = world.trace().events();
        let reported = events.iter().find(|e| e.is::<ProcessPanicked>()).unwrap();
        assert_eq!(reported.get(), Some(&ProcessPanicked { error: "at the disco".into() }));
        assert_eq!(&*reported.process, "broken");
        assert!(!events.iter().any(|e| e.is::<HalfAlive>()));
        process.restart();
        assert!(process.ctx().is_some());
    });
}

#[test]
fn a_crash_of_the_server_resets_calls_and_streams_and_stops_its_work() {
    simulate(Options::default(), async |world| {
        let server = server(&world);
        let ctx = client_ctx(&world, "client");
        let link = Link::connect(&ctx, "server");
        tokio::time::sleep(Duration::from_millis(1)).await;
        let mut lines = ticks(&link).await;
        assert_eq!(lines.next().await.unwrap().unwrap().into_data().unwrap(), "0\n");
        let slow = get_text(&link, "/slow");
        let crash = async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            server.crash();
        };
        let (slow, ()) = tokio::join!(slow, crash);
        assert_eq!(slow.unwrap_err(), "connection to server reset by peer");
        let mut error = None;
        while let Some(line) = lines.next().await {
            error = line.err().map(|e| e.to_string());
        }
        assert_eq!(error.as_deref(), Some("connection to server reset by peer"));
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert!(!world.trace().events().iter().any(|e| e.is::<ServerDone>()));
    });
}

#[test]
fn a_crash_of_the_caller_does_not_stop_the_server_half_way() {
    simulate(Options::default(), async |world| {
        let _server = server(&world);
        let client = Process::start(&world, "client", |ctx| async move {
            let link = Link::connect(&ctx, "server");
            ctx.sleep(Duration::from_millis(1)).await;
            drop(get_text(&link, "/slow").await);
            ctx.emit(ClientAnswered {});
        });
        tokio::time::sleep(Duration::from_millis(100)).await;
        client.crash();
        tokio::time::sleep(Duration::from_secs(5)).await;
        let kinds: Vec<&str> = world.trace().events().iter().map(|e| e.kind()).collect();
        assert!(kinds.contains(&"server.done") && !kinds.contains(&"client.answered"), "{kinds:?}");
    });
}

#[test]
fn a_partition_times_out_new_calls_and_heals() {
    simulate(Options::default(), async |world| {
        let _server = server(&world);
        let ctx = client_ctx(&world, "client");
        let link = Link::connect(&ctx, "server");
        world.faults().add(Duration::ZERO, partition("client", "server")).unwrap();
        assert_eq!(get_text(&link, "/").await.unwrap_err(), "connection to server timed out");
        assert!(ctx.now().mono >= Duration::from_secs(10));
        world.faults().remove("cut");
        get_text(&link, "/").await.unwrap();
    });
}

#[test]
fn a_partition_stalls_an_open_stream_and_resets_it_when_it_lasts() {
    simulate(Options::default(), async |world| {
        let _server = server(&world);
        let ctx = client_ctx(&world, "client");
        let link = Link::connect(&ctx, "server");
        tokio::time::sleep(Duration::from_millis(1)).await;
        let mut lines = ticks(&link).await;
        lines.next().await.unwrap().unwrap();
        let cut = |name: &str| {
            world.faults().add(Duration::ZERO, Fault { name: name.into(), ..partition("client", "server") })
        };
        cut("short").unwrap();
        let (began, faults) = (ctx.now().mono, world.faults().clone());
        ctx.spawn({
            let ctx = ctx.clone();
            async move {
                ctx.sleep(Duration::from_secs(20)).await;
                faults.remove("short");
            }
        });
        lines.next().await.unwrap().unwrap();
        let waited = ctx.now().mono - began;
        assert!((20..=22).contains(&waited.as_secs()), "{waited:?}");

        cut("long").unwrap();
        let began = ctx.now().mono;
        let end =
            tokio::time::timeout(Duration::from_secs(600), async { while let Some(Ok(_)) = lines.next().await {} });
        end.await.expect("the stream is reset");
        let waited = ctx.now().mono - began;
        assert!((45..=47).contains(&waited.as_secs()), "{waited:?}");
    });
}

#[test]
fn a_lost_reply_means_that_the_work_was_done() {
    simulate(Options::default(), async |world| {
        let _server = server(&world);
        let link = Link::connect(&client_ctx(&world, "client"), "server");
        let mut fault = partition("client", "server");
        fault.effect = Effect::DropReply(true);
        fault.at = substrate::fault::Moment::AfterEffect;
        fault.when.first = Some(1);
        world.faults().add(Duration::ZERO, fault).unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert!(get_text(&link, "/slow").await.is_err());
        assert!(world.trace().events().iter().any(|e| e.is::<ServerDone>()));
        get_text(&link, "/slow").await.unwrap();
    });
}

/// Runs many callers with many collisions within a millisecond, and a stream. Returns the order of all events.
fn busy(seed: u64, transport: Transport) -> Vec<String> {
    let options = Options { seed, transport, level: Level::Trace, ..Options::default() };
    simulate(options, async |world| {
        let _server = server(&world);
        let order = Arc::new(Mutex::new(Vec::new()));
        let callers: Vec<Process> = (0..20)
            .map(|i| {
                let order = order.clone();
                Process::start(&world, &format!("client-{i}"), move |ctx| {
                    let order = order.clone();
                    async move {
                        let link = Link::connect(&ctx, "server");
                        ctx.sleep(Duration::from_millis(1)).await;
                        let mut request = Request::get("/ticks").body(empty()).unwrap();
                        request.extensions_mut().insert(Streaming);
                        let mut stream = call(link.clone(), request).await.unwrap().into_body();
                        for _ in 0..20 {
                            let text = get_text(&link, "/").await.unwrap();
                            order.lock().push(format!("{} {text}", ctx.name()));
                            ctx.emit(Called { at: text });
                            let frame = stream.frame().await.unwrap().unwrap().into_data().unwrap();
                            ctx.emit(Ticked { line: frame.len() });
                        }
                    }
                })
            })
            .collect();
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert_eq!(order.lock().len(), 400);
        drop(callers);
        world.trace().lines().iter().map(substrate::Line::text).collect()
    })
}

#[test]
fn the_same_seed_gives_the_same_trace_and_another_seed_another() {
    let one = busy(7, Transport::Direct);
    assert!(one == busy(7, Transport::Direct), "the traces of one seed differ");
    assert!(one != busy(8, Transport::Direct), "the traces of two seeds are equal");
}

#[test]
fn bytes_over_a_pipe_give_the_same_trace_as_direct_calls() {
    let (direct, duplex) = (busy(7, Transport::Direct), busy(7, Transport::Duplex));
    for (one, other) in direct.iter().zip(&duplex) {
        assert_eq!(one, other, "the first difference");
    }
    assert_eq!(direct.len(), duplex.len());
}

#[test]
fn a_stalled_receiver_blocks_no_other() {
    simulate(Options::default(), async |world| {
        let _server = server(&world);
        let ctx = client_ctx(&world, "client");
        let link = Link::connect(&ctx, "server");
        tokio::time::sleep(Duration::from_millis(1)).await;
        let mut request = Request::get("/ticks").body(empty()).unwrap();
        request.extensions_mut().insert(Streaming);
        // The stream is open and not read: its lines arrive and wait.
        let _unread = call(link.clone(), request).await.unwrap();
        tokio::time::sleep(Duration::from_secs(5)).await;
        let answered = tokio::time::timeout(Duration::from_secs(60), get_text(&link, "/")).await;
        answered.expect("the link still delivers").unwrap();
    });
}

#[test]
fn a_world_is_taken_apart_at_its_end_unless_it_is_left() {
    async fn hold(world: World, held: Arc<()>) -> u64 {
        let _process = Process::start(&world, "holder", move |ctx| {
            let held = held.clone();
            async move {
                ctx.sleep(Duration::from_secs(3600)).await;
                drop(held);
            }
        });
        tokio::time::sleep(Duration::from_secs(1)).await;
        world.clock().mono().as_secs()
    }
    let held = Arc::new(());
    assert_eq!(simulate(Options::default(), |world| hold(world, held.clone())), 1);
    assert_eq!(Arc::strong_count(&held), 1, "only the test holds it");
    assert_eq!(simulate_and_leave(Options::default(), |world| hold(world, held.clone())), 1);
    assert!(Arc::strong_count(&held) > 1, "what was left holds it, too");
}

fn on(plane: Plane, op: &str, effect: Effect) -> Fault {
    Fault {
        matches: Match { plane, op: Some(op.into()), attributes: Default::default() },
        effect,
        ..partition("client", "server")
    }
}

#[test]
fn a_hang_is_released_when_its_fault_is_deleted_and_when_it_ends_by_itself() {
    for deleted in [true, false] {
        simulate(Options::default(), async |world| {
            let _server = server(&world);
            let ctx = client_ctx(&world, "client");
            let link = Link::connect(&ctx, "server");
            let mut hang = on(Plane::Link, "request", Effect::Hang(true));
            if !deleted {
                hang.when.lasting = Some("30s".parse().unwrap());
            }
            world.faults().add(Duration::ZERO, hang).unwrap();
            if deleted {
                let (ctx, faults) = (ctx.clone(), world.faults().clone());
                ctx.clone().spawn(async move {
                    ctx.sleep(Duration::from_secs(30)).await;
                    faults.remove("cut");
                });
            }
            get_text(&link, "/").await.unwrap();
            assert_eq!(ctx.now().mono.as_secs(), 30);
        });
    }
}

#[test]
fn a_process_that_a_fault_delays_starts_later() {
    simulate(Options::default(), async |world| {
        let link = Link::connect(&client_ctx(&world, "client"), "server");
        let delay = on(Plane::Process, "start", Effect::Delay("20s".parse().unwrap()));
        world.faults().add(Duration::ZERO, delay).unwrap();
        let _server = server(&world);
        tokio::time::sleep(Duration::from_secs(19)).await;
        assert!(get_text(&link, "/").await.is_err());
        tokio::time::sleep(Duration::from_secs(2)).await;
        get_text(&link, "/").await.unwrap();
    });
}

#[test]
fn clock_skew_shifts_one_process_until_the_fault_ends_and_fires_once() {
    simulate(Options::default(), async |world| {
        let (early, other) = (client_ctx(&world, "early"), client_ctx(&world, "other"));
        let mut skew = on(Plane::Clock, "wall", Effect::Skew("-90s".into()));
        skew.matches.attributes.insert("process".into(), "early".into());
        world.faults().add(Duration::ZERO, skew).unwrap();
        let apart = || other.now().wall.as_second() - early.now().wall.as_second();
        assert_eq!((apart(), apart()), (90, 90));
        world.faults().remove("cut");
        assert_eq!(apart(), 0);
        let reported = world.trace().events().iter().filter(|e| e.is::<substrate::events::FaultFired>()).count();
        assert_eq!(reported, 1);
    });
}

#[test]
fn a_stream_that_stalls_goes_on_when_the_fault_is_gone() {
    simulate(Options::default(), async |world| {
        let _server = server(&world);
        let link = Link::connect(&client_ctx(&world, "client"), "server");
        tokio::time::sleep(Duration::from_millis(1)).await;
        let mut lines = ticks(&link).await;
        lines.next().await.unwrap().unwrap();
        let mut stall = on(Plane::Link, "stream", Effect::StallStream(true));
        stall.when.lasting = Some("60s".parse().unwrap());
        world.faults().add(world.clock().mono(), stall).unwrap();
        let began = world.clock().mono();
        lines.next().await.unwrap().unwrap();
        assert_eq!((world.clock().mono() - began).as_secs(), 60);
    });
}
