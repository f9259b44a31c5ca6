/* Only the name libcuda.so.1: its functions are in libgpumem-sim.so, which it depends on
 * (driver.c). */
typedef int gm_sim_nothing;
