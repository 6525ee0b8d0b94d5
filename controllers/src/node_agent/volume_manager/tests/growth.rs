//! Volumes that grow.

use super::*;

#[test]
fn a_volume_that_grew_while_pods_use_it_is_expanded_once() {
    let mut rig = Rig::new();
    rig.sizes = Sizes { volume: GIB, claim: GIB };
    rig.want("v", "p");
    rig.want("v", "q");
    rig.attach("v");
    rig.ticks(8);
    let mounted = rig.log().len();
    rig.sizes = Sizes { volume: 2 * GIB, claim: GIB };
    rig.want("v", "p");
    rig.want("v", "q");
    rig.ticks(8);
    assert_eq!(rig.log()[mounted..], ["expand v"]);
}

#[test]
fn a_volume_that_grew_before_is_expanded_once_it_is_published() {
    let mut rig = Rig::new();
    rig.sizes = Sizes { volume: 2 * GIB, claim: GIB };
    rig.script.insert(Step::Expand, vec![Answer::Final]);
    rig.want("v", "p");
    rig.attach("v");
    rig.ticks(20);
    // A failed expansion fails the mount. The next attempt publishes again.
    assert_eq!(rig.log(), ["stage v", "publish v p", "expand v", "publish v p", "expand v"]);
    assert_eq!(rig.events, ["MountVolume.Setup failed while expanding volume for volume \"pv-v\" : no"]);
}

#[test]
fn an_expansion_that_is_refused_while_the_volume_is_in_use_is_not_asked_for_again() {
    let mut rig = Rig::new();
    rig.sizes = Sizes { volume: GIB, claim: GIB };
    rig.want("v", "p");
    rig.attach("v");
    rig.ticks(8);
    rig.sizes.volume = 2 * GIB;
    rig.want("v", "p");
    rig.vm.refuse_expansion(&VolumeName::new("d", "v"));
    rig.ticks(8);
    assert_eq!(rig.log(), ["stage v", "publish v p"]);
}
