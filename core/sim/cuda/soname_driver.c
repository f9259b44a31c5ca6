/* libcuda.so.1 by name only: what it is asked for is in libgpumem-sim.so, which it depends on
 * (driver.c). */
typedef int gm_sim_nothing;
