"""HTTP as the platform speaks it: what is asked, how it is answered, and who may ask."""
