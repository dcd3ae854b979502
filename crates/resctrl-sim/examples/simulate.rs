//! Mounts a simulated machine until standard input ends: `simulate MOUNTPOINT [PROFILE]`.

use std::io::Read;
use std::sync::mpsc;

use crosstalk_resctrl_sim::{Profile, run};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mountpoint = arguments.next().ok_or("usage: simulate MOUNTPOINT [PROFILE]")?;
    let profile: Profile = arguments.next().as_deref().unwrap_or("small").parse()?;
    let (stop, stopped) = mpsc::channel();
    std::thread::spawn(move || {
        // However the input ends, that is the signal.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        drop(stop);
    });
    run(profile, mountpoint, &stopped)?;
    Ok(())
}
