//! The reply of AttachVolume is lost. The pod still runs, and a later pod finds its bytes.

use harness::prelude::*;

const CLAIM_AND_POD: &str = include_str!("../../../docs/pod-with-claim.yaml");

#[test]
fn a_lost_reply_loses_no_bytes() -> Result<(), Error> {
    for seed in seeds("1..3") {
        let cluster = Cluster::simulated().seed(seed).start()?;
        let lost = cluster.inject(fault::ec2("AttachVolume").first(1).drop_reply())?;

        cluster.apply(CLAIM_AND_POD)?;
        cluster.wait_for("pvc/data", "self.status.phase == 'Bound'")?;
        cluster.wait_for("pod/web", "Running")?;
        assert_eq!(lost.hits(), 1);
        lost.end();

        cluster.wait_for_records("pod/web", 3)?;
        cluster.delete("pod/web")?;
        cluster.wait_for("pod/web", "gone")?;
        cluster.apply(CLAIM_AND_POD)?;
        assert!(cluster.bytes_intact("pod/web")? >= 3);
        cluster.check()?;
    }
    Ok(())
}
