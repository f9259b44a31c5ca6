/* Only the name libnvidia-ml.so.1: its functions are in libgpumem-sim.so, which it depends on
 * (nvml.c). */
typedef int gm_sim_nothing;
