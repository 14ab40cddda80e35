"""Traffic on many copies of one model behind one endpoint, and a report of what came of it.

traffic and copies say what will be asked of what; load sends it, observing listens to what the
endpoint tells; arithmetic turns both into numbers, figures and page into a report; run joins them.
"""
