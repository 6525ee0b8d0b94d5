//! `aws-sdk-ec2`, unmodified, against a running `mock-ec2`: an attach and detach cycle, paginators, waiters, and
//! retries under throttling, lost replies and load-balancer errors.
//!
//! Usage: `e2e-aws-sdk ENDPOINT INSTANCE OTHER`, where the last two are running instances in one zone. `./run` starts a
//! cloud and passes them.

mod admin;
mod cases;

use std::process::ExitCode;
use tokio::time::Instant;

use anyhow::{Result, bail};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
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
    let [endpoint, instance, other] = arguments else { bail!("usage: e2e-aws-sdk ENDPOINT INSTANCE OTHER") };
    let cloud = cases::TestCloud::new(endpoint, instance, other);
    let begun = Instant::now();
    macro_rules! case {
        ($name:ident) => {{
            let begun = Instant::now();
            let seen = cases::$name(&cloud).await.map_err(|e| e.context(stringify!($name)))?;
            println!("ok  {:<52} {:>6} ms  {seen}", stringify!($name), begun.elapsed().as_millis());
        }};
    }
    case!(a_volume_is_attached_and_detached);
    case!(errors_have_their_codes);
    case!(paginators_give_everything_once);
    case!(waiters_end_at_once_when_it_is_so_already);
    case!(a_waiter_goes_on_while_a_volume_is_creating);
    case!(standard_retries_get_through_throttling);
    case!(adaptive_retries_get_through_throttling);
    case!(a_lost_reply_of_create_volume_makes_one_volume);
    case!(a_lost_reply_of_attach_volume_is_volume_in_use);
    case!(errors_of_load_balancers_are_retried);
    println!("all passed in {:.1} s", begun.elapsed().as_secs_f64());
    Ok(())
}
