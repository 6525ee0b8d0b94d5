//! The base of every mock: clock, seed streams, ids, link, process, faults as data, trace.
//!
//! A component gets one [`Ctx`] from the world that runs it, and reaches time, randomness, tasks, faults and the trace
//! only through it. It gets its peers as boxed tower services ([`HttpService`]). So the same component runs in two
//! worlds: [simulated](world::simulate), in virtual time and repeatable byte for byte, and [live](World::live).
//!
//! ```text
//!                 component: one Ctx, peers as services
//!                     │                        │
//!          ┌──────────▼─────────┐   ┌──────────▼─────────┐
//!          │ simulated          │   │ live               │
//!          │ one thread         │   │ many threads       │
//!          │ paused clock       │   │ wall clock         │
//!          │ Link to the Fabric │   │ Link to a socket   │
//!          └──────────┬─────────┘   └────────────────────┘
//!                     │
//!        ┌────────────▼───────────────────────────────────────┐
//!        │ 1. look at the first message under way, in the     │
//!   ┌───►│    order (millisecond, link, call, part of it)     │
//!   │    │ 2. sleep until its millisecond: local timers that  │
//!   │    │    are due by then fire                            │
//!   │    │ 3. wait for rest (quiescence): each woken task has │
//!   │    │    run, and so have the tasks that it woke         │
//!   │    │ 4. deliver this one message                        │
//!   │    └────────────┬───────────────────────────────────────┘
//!   └─────────────────┘
//! ```
//!
//! Because a message waits for the rest of the last one, nothing depends on the number of task switches of a transport:
//! calls as bytes over pipes ([`Transport::Duplex`](world::Transport::Duplex)) give the same trace as direct calls.
//!
//! # Example
//!
//! A server that answers after six minutes, and a client. They pass in milliseconds of real time.
//!
//! ```
//! use std::time::Duration;
//!
//! use axum::{Router, routing::get};
//! use http::Request;
//! use substrate::Process;
//! use substrate::body::{call, collect, empty, from_router};
//! use substrate::link::Link;
//! use substrate::world::{Options, simulate};
//!
//! let (text, time) = simulate(Options::default(), async |world| {
//!     let _server = Process::start(&world, "server", |ctx| async move {
//!         let clock = ctx.clone();
//!         let answer = move || async move {
//!             clock.sleep(Duration::from_secs(360)).await;
//!             "done"
//!         };
//!         ctx.world().fabric().bind(&ctx, "server", from_router(Router::new().route("/", get(answer))));
//!         std::future::pending::<()>().await;
//!     });
//!     let client = Process::start(&world, "client", |_| std::future::pending());
//!     let ctx = client.ctx().unwrap();
//!     let link = Link::connect(&ctx, "server");
//!     ctx.sleep(Duration::from_millis(1)).await; // the server has bound its name
//!     let request = Request::get("/").body(empty()).unwrap();
//!     let reply = call(link, request).await.unwrap();
//!     (collect(reply.into_body(), 1024).await.unwrap(), ctx.now().mono)
//! });
//! assert_eq!(text, "done");
//! assert!(time > Duration::from_secs(360) && time < Duration::from_secs(361));
//! ```
//!
//! # Modules
//!
//! | Subject | Modules |
//! |---|---|
//! | worlds, and the order in a simulation | [`world`], [`fabric`], `rest` |
//! | a component: its context, start, crash and tasks | [`process`], `inbox` |
//! | time, seeds and ids | [`clock`], [`scale`], [`seed`], [`ids`] |
//! | calls between components | [`link`], [`body`], [`duplex`], [`channels`], `document` |
//! | sockets | [`listen`], [`dial`], [`guard`], [`host`], [`ready`] |
//! | faults, their catalogue and their admin API | [`fault`], [`admin`] |
//! | seeded bugs | [`mutant`](mod@mutant) |
//! | the trace and its events | [`trace`], [`events`](mod@events), [`encode`] |
//! | tools | [`latest`] (a value with waiting readers), [`yaml`], [`words`], [`memory`] |
//!
//! # Never
//!
//! This crate knows nothing of volumes, pods or RPCs, and imports no server. It reads no ambient clock or randomness in
//! a simulation, and a task of a component never outlives its process.

pub mod admin;
pub mod body;
pub mod channels;
pub mod clock;
pub mod dial;
mod document;
pub mod duplex;
pub mod encode;
pub mod events;
pub mod fabric;
pub mod fault;
pub mod guard;
pub mod host;
pub mod ids;
mod inbox;
pub mod latest;
pub mod link;
pub mod listen;
pub mod memory;
pub mod mutant;
pub mod process;
pub mod ready;
mod rest;
pub mod scale;
mod secret;
pub mod seed;
pub mod trace;
pub mod words;
pub mod world;
pub mod yaml;

pub use body::{Body, BoxError, HttpService};
pub use clock::{Clock, Now};
/// The tree of objects of the API.
pub use json_tree as json;
pub use process::{Ctx, Process};
pub use scale::TimeScale;
pub use seed::Seed;
pub use trace::{Event, EventKind, EventType, Level, Line, Observing, Trace};
pub use world::{World, WorldKind};
