//! The small Kubernetes client against the fake API server.

use parking_lot::Mutex;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use controllers::kube::{
    Client, DeleteParams, Delta, EventRecorder, Guard, Informer, Kind, ListParams, Outcome, WorkQueue, reference,
};
use k8s_openapi::api::core::v1::{Event, Node};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use substrate::fault::Fault;
use substrate::json::json;
use substrate::link::Link;
use substrate::{Ctx, Process, World};

use crate::common::{S, in_simulation};

fn serve(world: &World) -> Process {
    let apiserver = fake_apiserver::Apiserver::new(world.seed(), fake_apiserver::Config::default());
    Process::start(world, "fake-apiserver", move |ctx| {
        let service = apiserver.start(&ctx);
        ctx.world().fabric().bind(&ctx, "apiserver", service);
        pending()
    })
}

fn user(world: &World) -> (Process, Ctx, Client) {
    let process = Process::start(world, "user", |_| pending());
    let ctx = process.ctx().expect("runs");
    let client = Client::new(&ctx, Link::connect(&ctx, "apiserver"), "test");
    (process, ctx, client)
}

fn node(name: &str) -> Node {
    Node { metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }, ..Node::default() }
}

fn labelled(node: &Node) -> Node {
    let mut node = node.clone();
    node.metadata.labels.get_or_insert_default().insert("x".to_owned(), "1".to_owned());
    node
}

#[test]
fn the_verbs_and_their_refusals() {
    in_simulation(1, |world| async move {
        let (_server, (_user, _ctx, client)) = (serve(&world), user(&world));
        let nodes = client.all::<Node>();
        let made = nodes.create(&node("a")).await.expect("created");
        assert!(nodes.create(&node("a")).await.is_err_and(|e| e.is_already_exists()));
        assert!(nodes.get("b").await.is_err_and(|e| e.is_not_found()));

        let mut stale = Node::clone(&made);
        let patched =
            nodes.merge_patch(&made, &labelled(&made), Guard::None).await.expect("patched").expect("a change");
        assert_eq!(patched.label("x"), Some("1"));
        assert_eq!(nodes.merge_patch(&patched, &patched, Guard::ResourceVersion).await.expect("nothing to do"), None);
        let late = nodes.strategic_patch_status(&made, &labelled(&made), Guard::ResourceVersion).await;
        assert!(late.is_err_and(|e| e.is_conflict()), "the node has changed since");
        stale.metadata.labels = None;
        assert!(nodes.replace(&stale).await.is_err_and(|e| e.is_conflict()));

        let wrong = DeleteParams { uid: Some("other".to_owned()), ..DeleteParams::default() };
        assert!(nodes.delete("a", &wrong).await.is_err_and(|e| e.is_conflict()));
        nodes.delete("a", &DeleteParams::default()).await.expect("deleted");
        assert!(nodes.list(&ListParams::default()).await.expect("a list").items.is_empty());
    });
}

#[test]
fn subscribers_get_what_is_there_and_then_every_change() {
    in_simulation(3, |world| async move {
        let (_server, (_user, ctx, client)) = (serve(&world), user(&world));
        let nodes = client.all::<Node>();
        let a = nodes.create(&node("a")).await.expect("created");
        let informer = Informer::start(&ctx, nodes.clone(), ListParams::default());
        informer.synced().await;
        let mut changes = informer.subscribe();
        nodes.create(&node("b")).await.expect("created");
        nodes.strategic_patch(&a, &labelled(&a), Guard::Uid).await.expect("patched");
        nodes.delete("b", &DeleteParams::default()).await.expect("deleted");
        let mut seen = Vec::new();
        for _ in 0..4 {
            seen.push(match changes.recv().await.expect("a change") {
                Delta::Applied { old: None, new } => format!("+{}", new.name()),
                Delta::Applied { old: Some(_), new } => format!("~{}", new.name()),
                Delta::Deleted(gone) => format!("-{}", gone.name()),
            });
        }
        assert_eq!(seen, ["+a", "+b", "~a", "-b"]);
        assert_eq!(informer.list().len(), 1);
        assert_eq!(informer.get("", "a").and_then(|n| n.label("x").map(str::to_owned)).as_deref(), Some("1"));
    });
}

#[test]
fn clients_of_one_process_share_their_informers() {
    in_simulation(4, |world| async move {
        let (_server, (_user, ctx, client)) = (serve(&world), user(&world));
        let one = Informer::<Node>::start(&ctx, client.all(), ListParams::default());
        let two = Informer::<Node>::start(&ctx, client.named("other").all(), ListParams::default());
        one.synced().await;
        two.synced().await;
        client.all::<Node>().create(&node("a")).await.expect("created");
        world.clock().sleep_until(world.clock().mono() + S(1)).await;
        let (a, b) = (one.get("", "a").expect("cached"), two.get("", "a").expect("cached"));
        assert!(Arc::ptr_eq(&a, &b));
    });
}

#[test]
fn an_object_deleted_while_the_api_server_was_away_is_reported_as_deleted() {
    in_simulation(5, |world| async move {
        let (_server, (_user, ctx, client)) = (serve(&world), user(&world));
        let nodes = client.all::<Node>();
        nodes.create(&node("a")).await.expect("created");
        let watcher = Process::start(&world, "watcher", |_| pending());
        let watching = watcher.ctx().expect("runs");
        let far = Client::new(&watching, Link::connect(&watching, "apiserver"), "watcher");
        let informer = Informer::<Node>::start(&watching, far.all(), ListParams::default());
        informer.synced().await;
        let mut changes = informer.subscribe();
        let cut: Fault = substrate::json::from_value(json!({
            "name": "cut", "match": { "plane": "link" }, "effect": { "partition": ["watcher", "apiserver"] },
        }))
        .expect("a fault");
        world.faults().add(ctx.now().mono, cut).expect("in force");
        nodes.delete("a", &DeleteParams::default()).await.expect("deleted");
        nodes.create(&node("b")).await.expect("created");
        ctx.sleep(S(120)).await;
        assert!(informer.get("", "a").is_some(), "nothing is received across the cut");
        world.faults().remove("cut");
        ctx.sleep(S(90)).await;
        assert!(informer.get("", "a").is_none() && informer.get("", "b").is_some());
        let mut gone = 0;
        while let Some(change) = changes.try_recv() {
            gone += usize::from(matches!(change, Delta::Deleted(node) if node.name() == "a"));
        }
        assert_eq!(gone, 1);
    });
}

#[test]
fn a_repeated_event_is_counted_not_repeated() {
    in_simulation(6, |world| async move {
        let (_server, (_user, ctx, client)) = (serve(&world), user(&world));
        let object = Arc::new(reference(&*client.all::<Node>().create(&node("a")).await.expect("created")));
        let recorder = EventRecorder::new(&client, "test-controller");
        for _ in 0..3 {
            recorder.event(object.clone(), "Warning", "Broken", "it does not work");
            ctx.sleep(S(1)).await;
        }
        recorder.event(object.clone(), "Warning", "Broken", "for another reason");
        ctx.sleep(S(1)).await;
        let events = client.namespaced::<Event>("default").list(&ListParams::default()).await.expect("a list").items;
        let mut seen: Vec<(Option<i32>, Option<String>)> =
            events.iter().map(|e| (e.count, e.message.clone())).collect();
        seen.sort();
        let text = |t: &str| Some(t.to_owned());
        assert_eq!(seen, [(Some(1), text("for another reason")), (Some(3), text("it does not work"))]);
        let component = events[0].source.as_ref().and_then(|s| s.component.clone());
        assert_eq!(
            (component, events[0].reporting_component.clone()),
            (text("test-controller"), text("test-controller"))
        );
    });
}

#[test]
fn similar_events_are_combined_from_the_tenth_on() {
    in_simulation(8, |world| async move {
        let (_server, (_user, ctx, client)) = (serve(&world), user(&world));
        let object = reference(&*client.all::<Node>().create(&node("a")).await.expect("created"));
        let recorder = EventRecorder::new(&client, "test-controller");
        for number in 1..=12 {
            recorder.event(object.clone(), "Normal", "Changed", format!("change {number}"));
            ctx.sleep(S(1)).await;
        }
        let mut events =
            client.namespaced::<Event>("default").list(&ListParams::default()).await.expect("a list").items;
        assert_eq!(events.len(), 10);
        events.retain(|event| event.count != Some(1));
        let [event] = events.as_slice() else { panic!("one combined Event: {events:?}") };
        let message = "(combined from similar events): change 12";
        assert_eq!((event.count, event.message.as_deref()), (Some(3), Some(message)));
        let source = event.source.as_ref().and_then(|source| source.component.as_deref());
        assert_eq!((source, event.reporting_component.as_deref().unwrap_or_default()), (Some("test-controller"), ""));
    });
}

#[test]
fn a_failing_item_backs_off_and_a_busy_one_is_done_once_more() {
    in_simulation(7, |world| async move {
        let (_user, ctx, _client) = user(&world);
        let queue = WorkQueue::new(&ctx, S(1), S(300));
        let times: Arc<Mutex<Vec<u64>>> = Arc::default();
        let (log, clock) = (times.clone(), ctx.clone());
        ctx.spawn(queue.clone().run(2, move |item: &'static str| {
            let (log, clock) = (log.clone(), clock.clone());
            async move {
                let mut log = log.lock();
                log.push(clock.now().mono.as_secs());
                if log.len() < 4 && item == "fails" { Outcome::Retry } else { Outcome::Done }
            }
        }));
        queue.add("fails");
        queue.add("fails");
        ctx.sleep(S(60)).await;
        assert_eq!(*times.lock(), [0, 1, 3, 7]);
        assert_eq!(queue.requeues(&"fails"), 0);

        let busy = WorkQueue::new(&ctx, S(1), S(300));
        busy.add(1);
        let item = busy.get().await;
        busy.add(1);
        busy.add(1);
        busy.done(&item);
        assert_eq!(busy.get().await, 1);
        busy.done(&1);
        busy.add_after(2, Duration::from_millis(1500));
        let before = ctx.now().mono;
        assert_eq!(busy.get().await, 2);
        assert_eq!(ctx.now().mono - before, Duration::from_millis(1500));
    });
}
