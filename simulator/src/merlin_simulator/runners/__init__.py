"""How containers are run: started here, or attached to where they run already; both watched."""
