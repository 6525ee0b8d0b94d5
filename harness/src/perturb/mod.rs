//! Finds the bugs of a controller. Each trial runs a workload and breaks one call of the program in one way.
//!
//! A trial is a scenario in the live world: the workload, the program in its `run:`, and one perturbation as faults and
//! steps. So the file that repeats a finding is a scenario file.
//!
//! | File | Contents |
//! |---|---|
//! | `kind` | the perturbations and their names |
//! | `names` | generated names and their fixed parts |
//! | `call` | a call of the program, with a key that identifies it in the next run |
//! | `plan` | the calls of three unbroken runs, and the trials |
//! | `faults` | the faults of a trial |
//! | `user_acts` | the steps of a trial in which the user acts while the program is down |
//! | `workload` | the included workloads |
//! | `recorded` | the record of a run |
//! | `ends` | final states of runs, and the values that vary there |
//! | `verdict` | the verdict on a trial |
//! | `difference` | the difference between the journals of a trial and of an unbroken run |
//! | `campaign` | all trials and the findings |
//! | `baseline` | known findings |
//! | `table`, `report`, `page` | the report: its table, its formats, and its HTML page |
//! | `repeat` | the file that repeats a finding |
//! | `trial`, `runs` | one run in its own world; several runs in parallel |

pub mod baseline;
pub mod call;
pub mod campaign;
pub mod difference;
pub mod ends;
pub mod faults;
pub mod kind;
pub mod names;
pub mod page;
pub mod plan;
pub mod real;
pub mod recorded;
pub mod repeat;
pub mod report;
pub(crate) mod runs;
pub mod table;
pub(crate) mod trial;
pub mod user_acts;
pub mod verdict;
pub mod workload;
