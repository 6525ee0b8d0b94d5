//! kube-rs, unmodified, against a running `fake-apiserver`: typed client, discovery, server-side apply, watcher and
//! reflector in both ways of listing, finalizers, a derived custom resource and its controller. Before that, a kube-rs
//! controller as a process of a simulated cluster.
//!
//! Usage: `e2e-kube-rs KUBECONFIG`. `./run` starts a server with TLS and passes its kubeconfig, and its plain HTTP
//! address.

mod cases;
mod custom;
mod simulated;

use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Result, bail};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let begun = Instant::now();
    if let Err(error) = simulated::a_controller_runs_crashes_and_is_broken_in_virtual_time() {
        eprintln!("failed: {error:?}");
        return ExitCode::FAILURE;
    }
    println!(
        "ok  simulated  a_controller_runs_crashes_and_is_broken_in_virtual_time {:>6} ms",
        begun.elapsed().as_millis()
    );
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let outcome = runtime.map_err(anyhow::Error::from).and_then(|runtime| runtime.block_on(all(&arguments)));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("failed: {error:?}");
            ExitCode::FAILURE
        }
    }
}

async fn all(arguments: &[String]) -> Result<()> {
    let [kubeconfig, plain] = arguments else { bail!("usage: e2e-kube-rs KUBECONFIG HTTP_ENDPOINT") };
    let config =
        Config::from_custom_kubeconfig(Kubeconfig::read_from(kubeconfig)?, &KubeConfigOptions::default()).await?;
    let secure = Client::try_from(config)?;
    let plain = Client::try_from(Config::new(plain.parse()?))?;
    let begun = Instant::now();
    for (way, client) in [("TLS", secure), ("plain HTTP", plain)] {
        macro_rules! case {
            ($file:ident::$name:ident) => {{
                let begun = Instant::now();
                $file::$name(&client).await.map_err(|e| e.context(concat!(stringify!($name))))?;
                println!("ok  {way:<10} {:<58} {:>6} ms", stringify!($name), begun.elapsed().as_millis());
            }};
        }
        case!(cases::discovery_lists_groups_kinds_and_capabilities);
        case!(cases::an_object_lives_and_ends);
        case!(cases::applied_fields_have_an_owner);
        case!(cases::an_entry_is_made_or_changed);
        case!(cases::a_watcher_sees_what_is_there_and_what_happens);
        case!(cases::a_reflector_keeps_up_by_pages_and_by_streams);
        case!(cases::subresources_are_written_apart);
        case!(cases::a_pod_is_evicted_as_its_budget_allows);
        case!(cases::events_are_published_and_counted);
        case!(cases::a_finalizer_holds_until_its_work_is_done);
        case!(custom::a_derived_kind_is_served_at_once);
        case!(custom::a_controller_keeps_what_its_objects_own);
        case!(custom::metadata_alone_can_be_watched);
    }
    println!("all passed in {:.1} s", begun.elapsed().as_secs_f64());
    Ok(())
}
